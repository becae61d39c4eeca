/* What the files of scalar instructions share: sop1.c and sop2.c. Each line of their lists gives result (r) and SCC; those of
 * ..._KEEP have no SCC and leave it alone. */
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

/* Copies of the scalar `code`, which may be undefined: then dst is, too. EXEC may not be, for it decides. */
static inline int sp_copy_s32(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    bool defined = true;
    uint32_t value = sp_s32_or_undefined(w, i, code, &defined);
    if (!defined && i->dst >= SP_EXEC) sp_wave_not_ready(w, i, code);
    if (w->stop) return (int)w->stop;
    sp_put_s32(w, i, i->dst, value);
    if (!defined && !w->stop && i->dst != SP_SRC_NULL) {
        w->sgpr_ready[i->dst] = 0;
        sp_wave_poison_moved(w, i->dst, code, 1);
    }
    return (int)w->stop;
}

static inline int sp_copy_s64(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    bool defined = true, low = !sp_undefined(w, code, 1), high = !sp_undefined(w, code + 1, 1);
    uint64_t value = sp_s64_or_undefined(w, i, code, &defined);
    if (!defined && i->dst >= SP_EXEC) sp_wave_not_ready(w, i, low ? code + 1 : code);
    if (w->stop) return (int)w->stop;
    sp_put_s64(w, i, i->dst, value);
    if (!defined && !w->stop && i->dst != SP_SRC_NULL) {
        w->sgpr_ready[i->dst] = low;
        w->sgpr_ready[i->dst + 1] = high;
        for (uint32_t k = 0; k < 2; k++) sp_wave_poison_moved(w, i->dst + k, code + k, 1);
    }
    return (int)w->stop;
}

static inline uint32_t add_overflows(uint32_t a, uint32_t b, uint32_t r) { return (~(a ^ b) & (a ^ r)) >> 31; }
#endif
