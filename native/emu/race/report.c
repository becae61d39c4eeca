/* Checks the accesses that an instruction reports. Gives them their identity and place in the order,
 * and lets shadow.c compare them with earlier ones. */
#include "shadow.h"

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

static void release(struct sp_wave *w, const struct sp_race_lanes *a)
{
    uint64_t last = 1;
    for (uint64_t left = a->lanes; left; left &= left - 1) {
        uint64_t va = a->va[__builtin_ctzll(left)] & ~UINT64_C(3);
        if (va != last) sp_order_release(w->race->all, va, sp_race_who(w));
        last = va;
    }
}

int sp_race_memory(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const struct sp_race_lanes *a)
{
    struct sp_race_group *r = w->race;
    struct sp_race_wave *me = &r->wave[w->id];
    struct sp_look k = {.w = w, .r = r, .i = i, .a = a, .kind = kind};
    bool stores = kind == SP_RACE_STORE || kind == SP_RACE_ATOMIC, arrived = (int32_t)(w->vs_waited - me->stored) >= 0;
    bool releases = arrived && kind == SP_RACE_STORE && (me->stored || me->synced || (r->stored && r->barriers));
    uint32_t seq = stores ? w->vs_issued + 1 : i->format == SP_FORMAT_SMEM ? w->vm_waited : w->vm_issued + 1;
    if (kind == SP_RACE_STORE && me->released) {
        me->turn += me->turn < SP_WHO_TURNS;
        me->released = 0;
    }
    k.now.who = sp_race_who(w);
    k.now.how = sp_race_pc(w) << SP_MARK_PC | (seq & 255) << SP_MARK_SEQ | (stores ? SP_MARK_STORES : 0) |
                (kind >= SP_RACE_ATOMIC ? SP_MARK_ATOMIC : 0) | (kind == SP_RACE_DEVICE || releases ? SP_MARK_MAYBE : 0);
    __atomic_store_n(&r->told, r->told + 1, __ATOMIC_RELEASE);
    if (kind >= SP_RACE_ATOMIC && arrived) release(w, a);
    if (sp_look_at_lanes(&k)) return SP_WAVE_FAULT;
    if (stores) me->stored = seq;
    me->released |= releases || (kind >= SP_RACE_ATOMIC && arrived);
    r->stored |= kind == SP_RACE_STORE;
    me->synced |= kind == SP_RACE_DEVICE || kind >= SP_RACE_ATOMIC;
    return 0;
}
