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
