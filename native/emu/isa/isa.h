/* The structs of the generated decode tables (native/emu/gen/isa_gfx10.c, isa_gfx11.c), which
 * decode.c walks. */
#ifndef SP_EMU_ISA_H
#define SP_EMU_ISA_H
#include "inst.h"

/* The member of struct sp_inst for a field. */
enum sp_isa_slot {
    SP_SLOT_DST, SP_SLOT_SDST, SP_SLOT_SRC0, SP_SLOT_SRC1, SP_SLOT_SRC2, SP_SLOT_DST_SRC1, SP_SLOT_SBASE, SP_SLOT_SOFFSET,
    SP_SLOT_DSTY, SP_SLOT_SRCY0, SP_SLOT_SRCY1, SP_SLOT_OFFSET, SP_SLOT_ABS, SP_SLOT_NEG, SP_SLOT_ABS0, SP_SLOT_NEG0, SP_SLOT_ABS1, SP_SLOT_NEG1, SP_SLOT_NEG_HI,
    SP_SLOT_OP_SEL, SP_SLOT_OP_SEL_HI, SP_SLOT_OMOD, SP_SLOT_CLAMP, SP_SLOT_DPP_CTRL, SP_SLOT_ROW_MASK, SP_SLOT_BANK_MASK,
    SP_SLOT_BOUND_CTRL, SP_SLOT_FI, SP_SLOT_DPP8, SP_SLOT_DST_SEL, SP_SLOT_DST_UNUSED, SP_SLOT_SRC0_SEL, SP_SLOT_SRC1_SEL,
    SP_SLOT_SEXT0, SP_SLOT_SEXT1, SP_SLOT_S0, SP_SLOT_S1, SP_SLOT_SD, SP_SLOT_GLC, SP_SLOT_SLC, SP_SLOT_DLC, SP_SLOT_LDS,
    SP_SLOT_GDS, SP_SLOT_OFFEN, SP_SLOT_IDXEN, SP_SLOT_TFE, SP_SLOT_SEGMENT, SP_SLOT_SVE, SP_SLOT_BUF_FORMAT, SP_SLOT_ATTR,
    SP_SLOT_CHAN, SP_SLOT_WAIT, SP_SLOT_NSA, SP_SLOT_DIM, SP_SLOT_DMASK, SP_SLOT_UNRM, SP_SLOT_R128, SP_SLOT_LWE,
    SP_SLOT_A16, SP_SLOT_D16, SP_SLOT_NUM
};
/* How a field's number is converted to the member. */
enum sp_isa_kind {
    SP_KIND_RAW,
    SP_KIND_SIGNED,
    SP_KIND_VGPR,   /* 8 bits: a VGPR */
    SP_KIND_SCALAR, /* an SGPR or, as a source, a constant */
    SP_KIND_SRC,    /* 9 bits, any operand */
    SP_KIND_VGPR_HALF, /* gfx11, short forms: bit 7 selects a half of one of the first 128 VGPRs */
    SP_KIND_SRC_HALF,
    SP_KIND_PAIR,   /* SBASE: half the number of the first SGPR */
    SP_KIND_QUAD,   /* SRSRC, SSAMP: a quarter of it */
    SP_KIND_FIXED   /* not a field: `low` is the operand's code */
};
struct sp_isa_field {
    uint8_t slot, kind;
    uint8_t low, width;   /* the less significant part */
    uint8_t low2, width2; /* the part above it; width2 0: none */
    uint8_t ndw;
} __attribute__((aligned(8))); /* so that an index is a shift, not a product */
enum sp_isa_flag {
    SP_ISA_DPP = 1,
    SP_ISA_DPP8 = 2,
    SP_ISA_SDWA = 4,
    SP_ISA_LITERAL = 8, /* always has a literal dword */
    SP_ISA_TWO_ADDR = 16,
    SP_ISA_NAME = 32,  /* only its name is known */
    SP_ISA_VCC = 64,   /* reads VCC, which is not an operand */
    SP_ISA_BUS1 = 128  /* reads at most one scalar, not two */
};
struct sp_isa_row {
    uint16_t op; /* 0: no such opcode */
    uint8_t format, flags;
    uint16_t first; /* index of its first operand in struct sp_isa: a pointer would take a relocation per row */
    uint8_t count;  /* of its operands */
    uint8_t minor;  /* first minor version that has it: 5 for gfx11.5's additions */
};
struct sp_isa_format {
    uint64_t mask, value, reserved;
    const struct sp_isa_field *modifiers;
    const struct sp_isa_row *rows;
    struct sp_isa_field opcode, opcode2; /* opcode2: VOPD's OPY */
    uint16_t rows_count;
    uint8_t format, ndw, count; /* of modifiers */
};
struct sp_isa {
    const struct sp_isa_format *formats; /* in the order of the checks */
    const struct sp_isa_format *vop3b;   /* VOP3's fields if SDST replaces ABS and OP_SEL */
    const struct sp_isa_format *dpp16, *dpp8, *sdwa, *sdwab; /* second words; sdwa NULL: none */
    const struct sp_isa_field *operands; /* of all rows: rows with equal operands share them */
    const struct sp_isa_row *vopd_y;
    uint16_t vopd_y_count;
    uint8_t formats_count;
    uint8_t generation;
    uint8_t null; /* operand code of NULL; M0's is the other one of 124 and 125 */
};
extern const struct sp_isa sp_isa_gfx10, sp_isa_gfx11;

int sp_isa_decode(const struct sp_isa *isa, const uint32_t *words, uint32_t count, struct sp_inst *out, uint32_t *reserved,
                  char *why, uint32_t why_nbytes);
#endif
