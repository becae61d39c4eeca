/* Poison in registers: what a load brought from LDS, scratch or memory that nobody has written. It may be copied and
 * stored, but not decide. A register that is not ready has poison, or nobody has written it: the origin tells them apart. */
#include "wave.h"
#include <stdio.h>

static void begin(struct sp_wave *w)
{
    if (w->origins) return;
    memset(w->why, 0, sizeof w->why);
    memset(w->poison, 0, sizeof w->poison);
    w->origins = 1; /* 0 is nobody's number */
}

/* One origin for each instruction; when there is no more room, the last one is the newest. */
uint8_t sp_wave_origin(struct sp_wave *w, const struct sp_inst *i, enum sp_from from, uint64_t at)
{
    uint32_t n = 1;
    begin(w);
    while (n < w->origins && w->origin[n].pc != w->pc) n++;
    if (n == SP_ORIGINS) n--;
    if (n == w->origins) w->origins++;
    w->origin[n] = (struct sp_origin){w->pc, at, i->op, (uint8_t)from};
    return (uint8_t)n;
}

void sp_wave_poisoned(struct sp_wave *w, uint32_t reg, uint64_t lanes, uint64_t defined, uint8_t why)
{
    begin(w);
    if (reg >= SP_SRC_VGPR) w->poison[reg & 255] = (w->poison[reg & 255] & ~defined) | lanes;
    if (lanes) w->why[reg] = why;
}

/* Of these lanes, those that `reg` has poison in; an SGPR is the same for all. */
static uint64_t held(const struct sp_wave *w, uint32_t reg, uint64_t lanes)
{
    if (reg >= SP_SRC_VGPR) return w->poison[reg & 255] & ~w->vgpr_ready[reg & 255] & lanes;
    return reg < SP_SGPRS && !w->sgpr_ready[reg] && w->why[reg] ? lanes : 0;
}

void sp_wave_poison_moved(struct sp_wave *w, uint32_t to, uint32_t from, uint64_t lanes)
{
    if (!w->origins || to == from) return;
    if (to < SP_SRC_VGPR) w->why[to] = 0;
    sp_wave_poisoned(w, to, held(w, from, lanes), lanes, w->why[from]);
}

void sp_wave_poison_copied(struct sp_wave *w, const struct sp_inst *i, uint64_t lanes)
{
    uint64_t first = held(w, i->src[0], lanes), second = i->src_ndw[1] ? held(w, i->src[1], lanes) : 0;
    sp_wave_poisoned(w, i->dst, first | second, lanes, w->why[i->src[first ? 0 : 1]]);
}

/* Of VGPRs, in all active lanes. */
void sp_wave_poison_swapped(struct sp_wave *w, uint32_t a, uint32_t b)
{
    uint64_t change = (w->poison[a & 255] ^ w->poison[b & 255]) & w->exec;
    uint8_t why = w->why[a];
    w->poison[a & 255] ^= change;
    w->poison[b & 255] ^= change;
    w->why[a] = w->why[b];
    w->why[b] = why;
}

const char *sp_wave_why(const struct sp_wave *w, uint32_t reg, char *to, size_t nbytes)
{
    static const char *const PLACE[] = {"memory", "LDS", "scratch"};
    uint32_t n = w->origins ? w->why[reg] : 0;
    const struct sp_origin *o = &w->origin[n];
    if (n && o->from == SP_FROM_DEALLOC)
        return "which S_SENDMSG DEALLOC_VGPRS gave back";
    if (!n) return reg == SP_SRC_SCC ? "which nothing defined has set" : "which was never written";
    snprintf(to, nbytes, "which %s at pc 0x%llx loaded from %s 0x%llx that was never written", sp_wave_op_name(o->op),
             (unsigned long long)o->pc, PLACE[o->from], (unsigned long long)o->at);
    return to;
}
