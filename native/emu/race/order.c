/* The order between the accesses of different groups. Releases and acquires of atomic values make
 * it. An acquire at an address comes after every earlier release at that address. All later
 * accesses of the acquiring wave then come after two sets of accesses: those that the releasing
 * wave made before the release, and those that its group made before the group's last barrier. An
 * access that a wave makes between a release and the wave's next store counts as made before the
 * release. */
#include "group_state.h"
#include "dispatch_state.h"

enum { DEPTH = 4, STEPS = 4096 };

/* A store or atomic with which a wave may release its earlier accesses. A hash table has all
 * releases by address and group. The releases of one address also form a list, the newest first. */
struct sp_release {
    uint64_t va, who, when;
    struct sp_release *chain, *older;
};
struct sp_place_of_releases {
    uint64_t va;
    struct sp_release *newest;
    struct sp_place_of_releases *chain;
};
struct sp_acquire {
    uint64_t va, who, when;
    struct sp_acquire *chain;
};

static uint32_t bucket(uint64_t a, uint64_t b)
{
    return (uint32_t)((a * UINT64_C(0x9E3779B97F4A7C15) ^ b * UINT64_C(0xC2B2AE3D27D4EB4F)) >> 52) % SP_ORDER_BUCKETS;
}

static struct sp_place_of_releases *place_at(struct sp_races *races, uint64_t va, bool make)
{
    struct sp_place_of_releases **to = &races->place[bucket(va, 0)], *p = *to;
    while (p && p->va != va) p = p->chain;
    if (p || !make || !(p = sp_arena_get(&races->arena, sizeof *p))) return p;
    p->va = va;
    p->chain = *to;
    return *to = p;
}

static struct sp_release *releases_of(struct sp_races *races, uint64_t va, uint32_t group)
{
    struct sp_release *r = races->release[bucket(va, group)];
    while (r && (r->va != va || sp_who_group(r->who) != group)) r = r->chain;
    return r;
}

/* Returns the next release of the same address and group in the same bucket, or NULL. */
static struct sp_release *next_of(const struct sp_release *of)
{
    struct sp_release *r = of->chain;
    while (r && (r->va != of->va || sp_who_group(r->who) != sp_who_group(of->who))) r = r->chain;
    return r;
}

uint64_t sp_order_now(const struct sp_races *races) { return __atomic_load_n(&races->when, __ATOMIC_ACQUIRE); }

static void release(struct sp_races *races, uint64_t va, uint64_t who)
{
    for (struct sp_release *r = releases_of(races, va, sp_who_group(who)); r; r = next_of(r))
        if (r->who == who) return;
    struct sp_place_of_releases *place = place_at(races, va, true);
    struct sp_release *r = place ? sp_arena_get(&races->arena, sizeof *r) : NULL;
    if (!r) {
        races->full = 1;
        return;
    }
    struct sp_release **to = &races->release[bucket(va, sp_who_group(who))];
    *r = (struct sp_release){va, who, races->when + 1, *to, place->newest};
    *to = place->newest = r;
    __atomic_store_n(&races->when, r->when, __ATOMIC_RELEASE);
}

void sp_order_release(struct sp_races *races, uint64_t va, uint64_t who)
{
    pthread_mutex_lock(&races->lock);
    release(races, va, who);
    pthread_mutex_unlock(&races->lock);
}

static struct sp_acquire **acquires_of(struct sp_races *races, uint64_t who)
{
    return &races->acquire[bucket(sp_who_group(who), 0)];
}

static void acquire(struct sp_races *races, uint64_t who, const struct sp_race_seen *seen)
{
    uint64_t when = seen->when;
    if (seen->who) {
        release(races, seen->va, seen->who);
        when = races->when;
    }
    struct sp_place_of_releases *place = place_at(races, seen->va, false);
    struct sp_acquire **to = acquires_of(races, who), *a = *to;
    if (!place || !place->newest) return;
    while (a && (a->va != seen->va || a->who != who)) a = a->chain;
    /* This wave polls the address in a loop, and has already recorded an acquire of the newest
     * release there. */
    if (a && a->when >= place->newest->when) return;
    if (!(a = sp_arena_get(&races->arena, sizeof *a))) {
        races->full = 1;
        return;
    }
    *a = (struct sp_acquire){seen->va, who, when, *to};
    *to = a;
}

void sp_order_acquire(struct sp_races *races, uint64_t who, const struct sp_race_seen *seen, uint32_t count)
{
    pthread_mutex_lock(&races->lock);
    for (uint32_t n = 0; n < count; n++) acquire(races, who, &seen[n]);
    pthread_mutex_unlock(&races->lock);
}

/* Returns true if a release by the wave of `who` makes the earlier access `before` visible too. It
 * does so if `before` is by the same wave, or precedes the last barrier of the wave's group. */
static bool covers(uint64_t who, uint64_t before)
{
    if (sp_who_group(who) != sp_who_group(before)) return false;
    return sp_who_barriers(who) > sp_who_barriers(before) ||
           (sp_who_wave(who) == sp_who_wave(before) && sp_who_barriers(who) == sp_who_barriers(before) &&
            sp_who_turn(who) >= sp_who_turn(before));
}

static bool reaches(struct sp_races *races, uint64_t before, uint64_t now, uint64_t until, uint32_t depth, uint32_t *steps)
{
    for (struct sp_acquire *a = *acquires_of(races, now); a; a = a->chain) {
        if (sp_who_group(a->who) != sp_who_group(now) || a->when > until) continue;
        if (sp_who_wave(a->who) != sp_who_wave(now) && sp_who_barriers(a->who) >= sp_who_barriers(now)) continue;
        for (struct sp_release *r = releases_of(races, a->va, sp_who_group(before)); r; r = next_of(r))
            if (r->when <= a->when && covers(r->who, before)) return true;
        struct sp_place_of_releases *place = depth ? place_at(races, a->va, false) : NULL;
        for (struct sp_release *r = place ? place->newest : NULL; r; r = r->older) {
            /* too many steps to search for an order: the accesses count as ordered */
            if (++*steps > STEPS) return true;
            if (r->when > a->when || sp_who_group(r->who) == sp_who_group(now)) continue;
            if (reaches(races, before, r->who, r->when, depth - 1, steps)) return true;
        }
    }
    return false;
}

bool sp_order_is(struct sp_races *races, uint64_t before, uint64_t now)
{
    uint32_t steps = 0;
    pthread_mutex_lock(&races->lock);
    bool is = races->full || reaches(races, before, now, UINT64_MAX, DEPTH, &steps);
    pthread_mutex_unlock(&races->lock);
    return is;
}
