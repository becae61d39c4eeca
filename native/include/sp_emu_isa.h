/* The emulator's instruction decoder alone, for tests and tools. It decodes dwords to a struct with
 * named members. */
#ifndef SP_EMU_ISA_ENTRY_H
#define SP_EMU_ISA_ENTRY_H
#include "sp_base.h"

/* A decoded instruction: a copy of struct sp_inst (native/emu/isa/inst.h) without the members for
 * image instructions. The members here are wider than there, so that every compiler lays them out
 * alike. */
struct sp_emu_inst {
    uint32_t op, format, ndw, reserved;
    uint32_t dst, sdst, src[3], sbase, soffset;
    int32_t offset;
    uint32_t literal, abs, neg, neg_hi, op_sel, op_sel_hi, omod, clamp;
    uint32_t lane_mode, dpp_ctrl, row_mask, bank_mask, bound_ctrl, fetch_inactive, dpp8;
    uint32_t dst_sel, dst_unused, src0_sel, src1_sel, src0_sext, src1_sext;
    uint32_t glc, slc, dlc, lds, gds, offen, idxen, tfe, segment, saddr_null;
    uint32_t buf_format, attr, chan, wait, two_addr, dst_ndw, sdst_ndw, src_ndw[3];
    uint32_t opy, dsty, srcy[2];
};

/* Decodes one instruction for generation 10 or 11. Returns 0; -EINVAL for another generation;
 * -EILSEQ for invalid code, with the reason in `why`; -ENODATA if the code is cut short. */
int sp_emu_decode(uint32_t generation, const uint32_t *words, uint32_t count, struct sp_emu_inst *out, char *why,
                  uint32_t why_nbytes);
/* These two functions return the name of an instruction or encoding format by its number, or NULL
 * past the last number. */
const char *sp_emu_op_name(uint32_t op);
const char *sp_emu_format_name(uint32_t format);
#endif
