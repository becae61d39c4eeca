/* Races in LDS: accesses of a group's waves without a barrier between them. */
#include "shadow.h"

bool sp_lds_unordered(const struct sp_look *k, const struct sp_mark *m, bool *late)
{
    uint32_t passed = sp_who_barriers(k->now.who) - sp_who_barriers(m->who), wave = sp_who_wave(m->who);
    *late = passed == 1 && sp_race_is_open(&k->r->wave[wave].lds, m->how >> SP_MARK_SEQ & 255);
    return *late || (passed == 0 && !(k->r->wave[k->w->id].after >> wave & 1));
}

/* Call it for a returning atomic whose address was last written by `write`: an atomic, or a store
 * that releases. The atomic's wave then comes after the wave of `write`, and after all waves before
 * that one. */
void sp_lds_saw(struct sp_look *k, const struct sp_mark *write)
{
    uint32_t wave = sp_who_wave(write->who);
    if (k->kind == SP_RACE_RETURNING && sp_who_barriers(write->who) == sp_who_barriers(k->now.who))
        k->r->wave[k->w->id].after |= UINT64_C(1) << wave | k->r->wave[wave].after;
}

int sp_race_lds(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const struct sp_race_lanes *a, bool counted)
{
    uint32_t seq = counted ? w->lds_issued + 1 : w->lds_waited, *synced = &w->race->wave[w->id].lds_synced;
    /* LDS performs a wave's accesses in order, so earlier accesses of the wave are done when a
     * store releases */
    bool releases = kind == SP_RACE_STORE && *synced;
    struct sp_look k = {.w = w, .r = w->race, .i = i, .a = a, .kind = kind, .lds = 1};
    for (uint64_t left = kind >= SP_RACE_STORE ? a->lanes : 0; left; left &= left - 1)
        /* a lane is out of range: the access itself will fault, so there is no race to find */
        if (a->va[__builtin_ctzll(left)] + a->nbytes > w->group->lds_bytes) return 0;
    k.now.who = sp_race_who(w);
    k.now.how = sp_race_pc(w) << SP_MARK_PC | (seq & 255) << SP_MARK_SEQ | (kind >= SP_RACE_ATOMIC ? SP_MARK_ATOMIC : 0) |
                (releases ? SP_MARK_MAYBE : 0);
    *synced |= kind == SP_RACE_RETURNING;
    return sp_look_at_lanes(&k);
}
