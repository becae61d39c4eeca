/* Common code of the scalar instructions in sop1.c and sop2.c. The RESULT macros store an
 * instruction's result, `r`, and set SCC by an expression that may use `r`. Those with the suffix
 * _KEEP leave SCC unchanged. */
#ifndef SP_EMU_OPS_SALU_H
#define SP_EMU_OPS_SALU_H
#include "emu/wave/operand.h"

#define RESULT32(value, scc_value)                                                                                    \
    uint32_t r = (uint32_t)(value);                                                                                   \
    w->scc = (scc_value) != 0;                                                                                        \
    sp_put_s32(w, i, i->dst, r);                                                                                      \
    return (int)w->stop;
#define RESULT32_KEEP(value)                                                                                          \
    sp_put_s32(w, i, i->dst, (uint32_t)(value));                                                                      \
    return (int)w->stop;
#define RESULT64(value, scc_value)                                                                                    \
    uint64_t r = (uint64_t)(value);                                                                                   \
    w->scc = (scc_value) != 0;                                                                                        \
    sp_put_s64(w, i, i->dst, r);                                                                                      \
    return (int)w->stop;
#define RESULT64_KEEP(value)                                                                                          \
    sp_put_s64(w, i, i->dst, (uint64_t)(value));                                                                      \
    return (int)w->stop;
#define HEAD(NAME) static int NAME(struct sp_wave *w, const struct sp_inst *i)

static inline uint32_t add_overflows(uint32_t a, uint32_t b, uint32_t r) { return (~(a ^ b) & (a ^ r)) >> 31; }
#endif
