/* One decoded instruction: what the generated decoder fills and the interpreter executes. Field names follow the ISA
 * manuals' microcode formats; one struct serves every format, fields a format lacks are 0. */
#ifndef SP_EMU_INST_H
#define SP_EMU_INST_H
#include <stdint.h>

/* Operand codes of src and dst are those of the manuals' 9-bit SRC0 field for both generations, except that NULL and M0,
 * which trade places between them, are normalised to gfx11's (NULL 124, M0 125): 0-105 SGPR, 106 VCC_LO, 107 VCC_HI,
 * 108-123 TTMP, 126 EXEC_LO, 127 EXEC_HI, 128-192 integers 0..64, 193-208 -1..-16, 235-239 apertures, 240-248 floats,
 * 251-253 VCCZ EXECZ SCC, 255 literal, 256-511 VGPR. A field that names a VGPR by eight bits has 256 added. */
enum { SP_SRC_NULL = 124, SP_SRC_M0 = 125, SP_SRC_LITERAL = 255, SP_SRC_VGPR = 256 };

struct sp_inst {
    uint16_t op;     /* enum sp_op (native/emu/gen/isa_ops.h): one number for what both generations do alike */
    uint8_t format;  /* enum sp_format (same file) */
    uint8_t ndw;     /* dwords, literal and DPP/SDWA words included */
    uint16_t dst;    /* vdst, sdst, vdata of a load; VOPC: VCC, SDST, or EXEC of V_CMPX; buffer atomics: vdata, as src[1] */
    uint16_t sdst;   /* second destination: SDST of VOP3B, VCC of VOP2 with carry (whose src[2] is VCC, too) */
    uint16_t src[3]; /* src0 src1 src2; vaddr/data/data1 of memory formats: src[0] address, src[1] data, src[2] data1 */
    uint16_t sbase;  /* SBASE of SMEM (first SGPR), SRSRC of buffers, SADDR of FLAT */
    uint16_t soffset;
    int32_t offset;  /* sign-extended immediate offset; DS: OFFSET0 | OFFSET1 << 8 as the format has it; SOPP/SOPK: SIMM16;
                      * S_SENDMSG_RTN: the message, which SSRC0 holds */
    uint32_t literal;
    uint8_t abs, neg; /* bit i: of src[i]; packed math: neg is NEG_LO */
    uint8_t neg_hi;
    uint8_t op_sel, op_sel_hi; /* bit i: src[i]; op_sel bit 3: destination. Also where a VOP1, VOP2 or VOPC of gfx11 names
                                * the upper half of a VGPR (v1.h, bit 7 of its number), which dst and src then do not say */
    uint8_t omod, clamp;
    uint8_t lane_mode; /* SP_LANE_*: how src[0] goes across lanes */
    union {            /* by format: only vector ALU formats go across lanes */
        struct {
            uint16_t dpp_ctrl; /* DPP16: DPP_CTRL; DPP8: none, see dpp8 */
            uint8_t row_mask, bank_mask, bound_ctrl, fetch_inactive;
            uint32_t dpp8;     /* eight 3-bit lane selects */
            uint8_t dst_sel, dst_unused, src0_sel, src1_sel, src0_sext, src1_sext; /* SDWA (gfx10) */
        };
        struct { /* MIMG: vdata is dst and src[1], vaddr src[0], ssamp soffset */
            uint8_t more_vaddr[12]; /* NSA: the VGPRs of the address behind the first one, four of each further dword */
            uint8_t nsa, dim, dmask, unrm, r128, lwe, a16, d16;
        };
    };
    uint8_t glc, slc, dlc, lds, gds, offen, idxen, tfe;
    uint8_t segment; /* FLAT: 0 flat, 1 scratch, 2 global */
    uint8_t saddr_null; /* FLAT: no SADDR; SMEM: no SOFFSET */
    uint8_t buf_format; /* MTBUF: FORMAT */
    uint8_t attr, chan, wait; /* parameter loads: ATTR, ATTR_CHAN, WAITEXP or WAIT_VDST */
    uint8_t two_addr;         /* DS: OFFSET0 and OFFSET1 are two offsets, not one of 16 bits */
    /* How many registers an operand is or, when it is a constant, would be: 0 none, SP_NDW_MASK a lane mask of the wave's
     * size. The address of FLAT and buffers is counted here too, in src_ndw[0]; VOPD's operands are all of one register. */
    uint8_t dst_ndw, sdst_ndw, src_ndw[3];
    /* VOPD: the second of two. FMAMK and FMAAK, here and in VOP2, have their constant in `literal`, no src[2].
     * V_CNDMASK in VOPD reads VCC without saying so. */
    uint16_t opy, dsty, srcy[2];
    uint8_t minor;         /* the first minor version of the generation that has it */
    uint8_t bus, bus_most; /* vector formats: different scalars that are read, the literal too; how many there may be */
};
enum { SP_NDW_MASK = 255 };
enum { SP_LANE_PLAIN = 0, SP_LANE_DPP16 = 1, SP_LANE_DPP8 = 2, SP_LANE_SDWA = 3 };

/* Decodes at `words`, of which `count` are readable. Returns 0; -EILSEQ with `why` (at most `why_nbytes`) naming format and
 * opcode of an instruction that does not exist, -ENODATA when it is longer than `count`. `reserved` receives 1 when a
 * reserved bit was set; fields of operands that the instruction does not have are ignored, as cards ignore them. */
int sp_inst_decode_gfx10(const uint32_t *words, uint32_t count, struct sp_inst *out, uint32_t *reserved, char *why,
                         uint32_t why_nbytes);
int sp_inst_decode_gfx11(const uint32_t *words, uint32_t count, struct sp_inst *out, uint32_t *reserved, char *why,
                         uint32_t why_nbytes);
#endif
