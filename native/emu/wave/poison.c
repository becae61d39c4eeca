/* Poison in registers: values loaded from unwritten LDS, scratch or memory, and values computed
 * from them. Poison may be stored, but must not decide. A register that is not ready is either
 * poisoned, and has an origin, or was never written. */
#include "wave.h"
#include <stdio.h>

static void begin(struct sp_wave *w)
{
    if (w->origins) return;
    memset(w->why, 0, sizeof w->why);
    memset(w->poison, 0, sizeof w->poison);
    w->origins = 1; /* origin[0] is not used: index 0 means that a register has no origin */
}

/* Records that the instruction at w->pc made a register poison, as a struct sp_origin. Returns that
 * struct's number in w->origin. The list has one struct for each instruction. If the list is full,
 * the new struct overwrites the last one. */
uint8_t sp_wave_origin(struct sp_wave *w, const struct sp_inst *i, enum sp_from from, uint64_t at)
{
    uint32_t n = 1;
    begin(w);
    while (n < w->origins && w->origin[n].pc != w->pc) n++;
    if (n == SP_ORIGINS) n--;
    if (n == w->origins) w->origins++;
    w->origin[n] = (struct sp_origin){w->pc, at, NULL, NULL, i->op, (uint8_t)from};
    return (uint8_t)n;
}

void sp_wave_poisoned(struct sp_wave *w, uint32_t reg, uint64_t lanes, uint64_t defined, uint8_t why)
{
    begin(w);
    if (lanes) w->why[reg] = why;
    if (reg < SP_SRC_VGPR) {
        w->s_undefined[reg] = UINT32_MAX;
        return;
    }
    w->poison[reg & 255] = (w->poison[reg & 255] & ~defined) | lanes;
    for (; lanes; lanes &= lanes - 1) w->v_undefined[reg & 255][__builtin_ctzll(lanes)] = UINT32_MAX;
}

uint64_t sp_wave_undefined_lanes(const struct sp_wave *w, uint32_t reg)
{
    uint64_t ready = w->vgpr_ready[reg & 255];
    /* If no lane of the VGPR is defined, all lanes count as undefined. Otherwise only the lanes
     * that hold poison do. Lanes that were never written are no error then, because compilers merge
     * values that they do not use. */
    return ready ? w->origins ? w->poison[reg & 255] & ~ready : 0 : UINT64_MAX;
}

uint32_t sp_wave_undefined_bits(const struct sp_wave *w, uint32_t reg, uint32_t lane)
{
    if (reg >= SP_SRC_VGPR)
        return w->origins && w->poison[reg & 255] >> lane & 1 ? w->v_undefined[reg & 255][lane] : UINT32_MAX;
    return sp_wave_origin_of(w, reg) ? w->s_undefined[reg] : UINT32_MAX;
}

uint8_t sp_wave_origin_of(const struct sp_wave *w, uint32_t reg)
{
    bool has = w->origins && (reg < SP_SRC_VGPR || (w->poison[reg & 255] & ~w->vgpr_ready[reg & 255]));
    return has ? w->why[reg] : 0;
}

const char *sp_wave_why(const struct sp_wave *w, uint32_t reg, char *to, size_t nbytes)
{
    static const char *const PLACE[] = {"memory", "LDS", "scratch"};
    char name[16];
    uint32_t n = sp_wave_origin_of(w, reg);
    const struct sp_origin *o = &w->origin[n];
    if (n && o->from == SP_FROM_DEALLOC)
        return "which S_SENDMSG DEALLOC_VGPRS freed";
    if (!n) return reg == SP_SRC_SCC ? "which no defined value has set" : "which was never written";
    if (o->from == SP_FROM_REGISTER)
        snprintf(to, nbytes, "which %s at pc 0x%llx computed from %s that was never written", sp_wave_op_name(o->op),
                 (unsigned long long)o->pc, sp_wave_reg_name((uint32_t)o->at, name, sizeof name));
    else if (o->from == SP_FROM_CACHE)
        snprintf(to, nbytes, "which %s at pc 0x%llx loaded from 0x%llx: %s holds it as it was before it was written: expected %s",
                 sp_wave_op_name(o->op), (unsigned long long)o->pc, (unsigned long long)o->at, o->cache, o->lacks);
    else
        snprintf(to, nbytes, "which %s at pc 0x%llx loaded from %s 0x%llx that was never written", sp_wave_op_name(o->op),
                 (unsigned long long)o->pc, PLACE[o->from], (unsigned long long)o->at);
    return to;
}
