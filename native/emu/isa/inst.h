/* One decoded instruction: the generated decoder fills it, the interpreter executes it. Field names
 * follow the ISA manuals' microcode formats. One struct serves every format; fields that a format
 * lacks are 0. */
#ifndef SP_EMU_INST_H
#define SP_EMU_INST_H
#include <stdint.h>

/* Operand codes of src and dst are those of the manuals' 9-bit SRC0 field, for both generations.
 * NULL and M0, which the generations swap, are normalised to gfx11's (NULL 124, M0 125). 0-105
 * SGPR, 106 VCC_LO, 107 VCC_HI, 108-123 TTMP, 126 EXEC_LO, 127 EXEC_HI, 128-192 integers 0..64,
 * 193-208 -1..-16, 235-239 apertures, 240-248 floats, 251-253 VCCZ EXECZ SCC, 255 literal, 256-511
 * VGPR. A field that names a VGPR by eight bits has 256 added. */
enum { SP_SRC_NULL = 124, SP_SRC_M0 = 125, SP_SRC_LITERAL = 255, SP_SRC_VGPR = 256 };

struct sp_inst {
    /* enum sp_op (native/emu/gen/isa_ops.h): one number for an instruction that both generations
     * have */
    uint16_t op;
    uint8_t format;  /* enum sp_format (same file) */
    uint8_t ndw;     /* dwords, with literal and DPP/SDWA words */
    uint16_t dst;    /* vdst, sdst, vdata of a load; VOPC: VCC, SDST, or EXEC of V_CMPX; buffer atomics: vdata, as src[1] */
    uint16_t sdst;   /* second destination: SDST of VOP3B, VCC of VOP2 with carry (whose src[2] is VCC too) */
    uint16_t src[3]; /* src0 src1 src2; vaddr/data/data1 of memory formats: src[0] address, src[1] data, src[2] data1 */
    uint16_t sbase;  /* SBASE of SMEM (first SGPR), SRSRC of buffers, SADDR of FLAT */
    uint16_t soffset;
    /* sign-extended immediate offset; DS: OFFSET0 | OFFSET1 << 8 as the format has it; SOPP/SOPK:
     * SIMM16; S_SENDMSG_RTN: the message, from SSRC0 */
    int32_t offset;
    uint32_t literal;
    uint8_t abs, neg; /* bit i: of src[i]; packed math: neg is NEG_LO */
    uint8_t neg_hi;
    /* bit i: src[i]; op_sel bit 3: destination. VOP1, VOP2 and VOPC of gfx11 may name the upper
     * half of a VGPR (v1.h, bit 7 of its number). dst and src do not contain that bit */
    uint8_t op_sel, op_sel_hi;
    uint8_t omod, clamp;
    uint8_t lane_mode; /* SP_LANE_*: how src[0] is moved across lanes */
    union {            /* by format: only vector ALU formats move data across lanes */
        struct {
            uint16_t dpp_ctrl; /* DPP16: DPP_CTRL; DPP8: none, see dpp8 */
            uint8_t row_mask, bank_mask, bound_ctrl, fetch_inactive;
            uint32_t dpp8;     /* eight 3-bit lane selects */
            uint8_t dst_sel, dst_unused, src0_sel, src1_sel, src0_sext, src1_sext; /* SDWA (gfx10) */
        };
        struct { /* MIMG: vdata is dst and src[1], vaddr src[0], ssamp soffset */
            uint8_t more_vaddr[12]; /* NSA: the VGPRs of the address after the first one, four per further dword */
            uint8_t nsa, dim, dmask, unrm, r128, lwe, a16, d16;
        };
    };
    uint8_t glc, slc, dlc, lds, gds, offen, idxen, tfe;
    uint8_t segment; /* FLAT: 0 flat, 1 scratch, 2 global */
    uint8_t saddr_null; /* FLAT: no SADDR; SMEM: no SOFFSET */
    uint8_t buf_format; /* MTBUF: FORMAT */
    uint8_t attr, chan, wait; /* parameter loads: ATTR, ATTR_CHAN, WAITEXP or WAIT_VDST */
    uint8_t two_addr;         /* DS: OFFSET0 and OFFSET1 are two offsets, not one of 16 bits */
    /* Number of registers of an operand, also if it is a constant. 0: none; SP_NDW_MASK: a lane
     * mask of the wave's size. src_ndw[0] counts the address of FLAT and buffers. Every VOPD
     * operand has one register. */
    uint8_t dst_ndw, sdst_ndw, src_ndw[3];
    /* VOPD: the second instruction. The constant of FMAMK and FMAAK, here and in VOP2, is in
     * `literal`, not in src[2]. V_CNDMASK in VOPD reads VCC implicitly. */
    uint16_t opy, dsty, srcy[2];
    uint8_t minor;         /* first minor version of the generation that has it */
    uint8_t bus, bus_most; /* vector formats: number of different scalars read, with the literal; and the limit */
};
enum { SP_NDW_MASK = 255 };
enum { SP_LANE_PLAIN = 0, SP_LANE_DPP16 = 1, SP_LANE_DPP8 = 2, SP_LANE_SDWA = 3 };

/* Decodes at `words`, of which `count` are readable. Returns 0. -EILSEQ: no such instruction; `why`
 * (at most `why_nbytes`) names format and opcode. -ENODATA: it is longer than `count`. `reserved`
 * receives 1 if a reserved bit was set. Fields of operands that the instruction does not have are
 * ignored, as on cards. */
int sp_inst_decode_gfx10(const uint32_t *words, uint32_t count, struct sp_inst *out, uint32_t *reserved, char *why,
                         uint32_t why_nbytes);
int sp_inst_decode_gfx11(const uint32_t *words, uint32_t count, struct sp_inst *out, uint32_t *reserved, char *why,
                         uint32_t why_nbytes);
#endif
