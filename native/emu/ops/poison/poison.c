/* Poison in memory, LDS and scratch. When an access may have touched poison, the functions here
 * find out where. LDS and scratch have a "written" mark per dword. An unwritten dword of memory
 * holds SP_POISON in a marked page (memory/vm.h). */
#include "poison.h"
#include "emu/memory/unit.h"
#include "emu/wave/operand.h"

static enum sp_place place_of(const struct sp_touched *t, uint64_t va)
{
    if (t->place != SP_PLACE_FLAT) return t->place;
    return va >> 32 == SP_SHARED_HIGH ? SP_PLACE_LDS : va >> 32 == SP_PRIVATE_HIGH ? SP_PLACE_SCRATCH : SP_PLACE_MEMORY;
}

/* Returns the number of the dword at `va` within the wave's scratch, if the access uses a scratch
 * descriptor. Returns SP_NO_POISON for any other access, and for a `va` beyond the wave's
 * scratch. */
static uint64_t slot_bit(const struct sp_wave *w, const struct sp_touched *t, uint64_t va)
{
    uint64_t bit = (va - t->slot) / 4;
    return t->slot && w->scratch_written && bit < w->scratch_bytes / 4 ? bit : SP_NO_POISON;
}

/* Returns the address of the first poison in `nbytes` at `va`, or SP_NO_POISON. */
static uint64_t find(struct sp_wave *w, const struct sp_touched *t, uint32_t lane, uint64_t va, uint32_t nbytes, uint32_t access)
{
    enum sp_place place = place_of(t, va);
    if (place == SP_PLACE_MEMORY) {
        uint64_t bit = slot_bit(w, t, va);
        if (bit == SP_NO_POISON) return sp_emu_poison_in(w->tlb, va, nbytes, access);
        return sp_scratch_is_written(w, bit) ? SP_NO_POISON : va;
    }
    for (uint64_t at = (uint32_t)va & ~3u; at < (uint32_t)va + (uint64_t)nbytes; at += 4)
        if (place == SP_PLACE_LDS ? !w->group->lds_written[at / 4]
                                  : w->scratch_written && !sp_scratch_is_written(w, sp_scratch_bit(w, at, lane)))
            return at;
    return SP_NO_POISON;
}

static enum sp_from from_of(const struct sp_touched *t, uint64_t va)
{
    enum sp_place place = place_of(t, va);
    return place == SP_PLACE_LDS ? SP_FROM_LDS : place == SP_PLACE_SCRATCH || t->slot ? SP_FROM_SCRATCH : SP_FROM_MEMORY;
}

uint8_t sp_poison_origin(struct sp_wave *w, const struct sp_inst *i, enum sp_from from, uint64_t at, uint32_t access)
{
    struct sp_stale old = {0};
    const uint8_t *got = from == SP_FROM_MEMORY ? sp_emu_seen(w->tlb, at, access) : NULL;
    bool stale = got && sp_cache_old(w->tlb, at, got, 4, access, &old);
    uint8_t why = sp_wave_origin(w, i, stale ? SP_FROM_CACHE : from, at);
    w->origin[why].cache = old.cache;
    w->origin[why].lacks = old.lacks;
    return why;
}

uint8_t sp_poison_find(struct sp_wave *w, const struct sp_inst *i, uint32_t dwords, const struct sp_touched *t,
                       uint64_t *undefined)
{
    uint8_t why = 0;
    uint32_t access = sp_wave_load_access(w, i);
    w->poison_seen = 0;
    for (uint32_t k = 0; k < dwords; k++) {
        uint32_t left = t->nbytes - 4 * k < 4 ? t->nbytes - 4 * k : 4;
        undefined[k] = 0;
        for (uint64_t rest = t->lanes; rest; rest &= rest - 1) {
            uint32_t l = (uint32_t)__builtin_ctzll(rest);
            uint64_t va = t->va[l] + k * t->step, at = find(w, t, l, va, left, access);
            if (at == SP_NO_POISON) continue;
            undefined[k] |= UINT64_C(1) << l;
            if (!why) why = sp_poison_origin(w, i, from_of(t, va), at, access);
        }
    }
    return why;
}

int sp_poison_loaded(struct sp_wave *w, const struct sp_inst *i, enum sp_pending_kind kind, uint32_t dst, uint32_t dwords,
                     const struct sp_touched *t)
{
    uint64_t undefined[4];
    uint8_t why = sp_poison_find(w, i, dwords, t, undefined);
    sp_wave_poison_begins(w, kind, dst, dwords, undefined, why);
    return (int)w->stop;
}

void sp_texels_begin(struct sp_wave *w, const struct sp_inst *i, uint32_t dwords, uint64_t undefined, const uint64_t *va)
{
    const uint64_t all[4] = {undefined, undefined, undefined, undefined};
    if (SP_LIKELY(!undefined || !w->strict))
        sp_wave_load_begins(w, SP_PEND_VM, i->dst, dwords);
    else
        sp_wave_poison_begins(w, SP_PEND_VM, i->dst, dwords, all,
                              sp_wave_origin(w, i, SP_FROM_MEMORY, va[__builtin_ctzll(undefined)]));
}

/* Records which dwords in memory are poison after a store of undefined registers. A dword is poison
 * as a whole: poison of single bytes or halves is not tracked. */
void sp_poison_stored(struct sp_wave *w, uint32_t src, const struct sp_touched *t)
{
    w->poison_seen = 0;
    for (uint32_t k = 0; 4 * k < t->nbytes; k++) {
        uint32_t reg = SP_SRC_VGPR + ((src + k) & 255);
        for (uint64_t rest = t->lanes; rest; rest &= rest - 1) {
            uint32_t l = (uint32_t)__builtin_ctzll(rest);
            bool defined = t->nbytes % 4 || (w->vgpr_ready[reg & 255] >> l & 1) || sp_wave_undefined_bits(w, reg, l) != UINT32_MAX;
            uint64_t va = t->va[l] + k * t->step, bit;
            enum sp_place place = place_of(t, va);
            if (place == SP_PLACE_MEMORY && (bit = slot_bit(w, t, va)) != SP_NO_POISON)
                sp_scratch_write(w, bit, defined);
            else if (defined || va % 4)
                continue;
            else if (place == SP_PLACE_LDS)
                sp_lds_unwrite(w->group, (uint32_t)va / 4, 1);
            else if (place == SP_PLACE_MEMORY)
                sp_emu_poison_put(w->tlb, va);
            else if (w->scratch_written)
                sp_scratch_write(w, sp_scratch_bit(w, (uint32_t)va, l), 0);
        }
    }
}
