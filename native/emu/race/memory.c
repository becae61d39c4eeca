/* Races in memory: accesses of waves of one or several groups. The records of a memory line (struct
 * sp_line) are in pages (struct sp_race_page), which a hash table finds by address. */
#include "shadow.h"
#include "emu/wave/operand.h"

#include <sched.h>
#include <time.h>

enum { PAGES_MOST = 1 << 18, SETTLE_MOST = 1000 };

static struct sp_race_page *find(struct sp_races *races, uint64_t page)
{
    struct sp_race_page **bucket = &races->page[page % SP_PAGE_BUCKETS], *p = __atomic_load_n(bucket, __ATOMIC_ACQUIRE);
    while (p && p->page != page) p = p->chain;
    if (p) return p;
    pthread_mutex_lock(&races->lock);
    for (p = *bucket; p && p->page != page;) p = p->chain;
    if (!p && races->pages < PAGES_MOST && (p = sp_arena_get(&races->arena, sizeof *p))) {
        p->page = page;
        p->chain = *bucket;
        races->pages++;
        __atomic_store_n(bucket, p, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&races->lock);
    return p;
}

/* Returns the page that holds the race records for `va`. NULL: there is no room for a new page, so
 * races at `va` are not found. */
struct sp_race_page *sp_race_page_of(struct sp_race_group *r, uint64_t va)
{
    uint64_t page = va >> SP_VM_GRAIN_BITS;
    uint32_t n = page % SP_RACE_NEAR;
    if (SP_LIKELY(r->near[n].page == page)) return r->near[n].shadow;
    struct sp_race_page *p = find(r->all, page);
    if (p) {
        r->near[n].page = page;
        r->near[n].shadow = p;
    }
    return p;
}

void sp_race_lock(const struct sp_race_group *r, struct sp_race_page *p)
{
    if (r->all->threads > 1)
        while (__atomic_exchange_n(&p->lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

void sp_race_unlock(const struct sp_race_group *r, struct sp_race_page *p)
{
    if (r->all->threads > 1) __atomic_store_n(&p->lock, 0, __ATOMIC_RELEASE);
}

static bool known_order(struct sp_race_group *r, uint64_t before, uint64_t now)
{
    uint32_t n = (uint32_t)(sp_who_group(before) ^ sp_who_wave(before)) % SP_RACE_NEAR;
    if (r->known[n] == before && r->known_for[n] == now) return true;
    if (!sp_order_now(r->all) || !sp_order_is(r->all, before, now)) return false;
    r->known[n] = before;
    r->known_for[n] = now;
    return true;
}

bool sp_memory_unordered(const struct sp_look *k, const struct sp_mark *m, bool *late)
{
    *late = false;
    if (sp_who_group(m->who) == sp_who_group(k->now.who)) {
        uint32_t passed = sp_who_barriers(k->now.who) - sp_who_barriers(m->who);
        const struct sp_race_wave *other = &k->r->wave[sp_who_wave(m->who)];
        /* an access that the earlier wave had not waited for at the barrier is unordered only in
         * WGP mode: in CU mode one L0 serves the group, and keeps the order of its accesses */
        *late = passed == 1 && k->r->wgp_mode &&
                sp_race_is_open(m->how & SP_MARK_STORES ? &other->stores : &other->loads, m->how >> SP_MARK_SEQ & 255);
        if (passed && !*late) return false;
    }
    return !known_order(k->r, m->who, k->now.who);
}

static void saw(struct sp_race_wave *me, const struct sp_race_group *r, uint64_t va, uint64_t who)
{
    me->seen[me->seen_count++ % SP_RACE_PENDING] = (struct sp_race_seen){va, sp_order_now(r->all), who};
}

/* Records that an access has read the value of the last write, `write`, and so may come after it.
 * If the access is a load that may be atomic, its address goes into the wave's list `seen`, because
 * the pair may be a release and an acquire. If the access is an atomic, and `write` a plain store,
 * the store is recorded as a release now, because the mark of the atomic replaces the mark of the
 * store. */
void sp_memory_saw(struct sp_look *k, const struct sp_mark *write, uint32_t dwords)
{
    bool atomic = write->how & SP_MARK_ATOMIC;
    for (; dwords; dwords &= dwords - 1) {
        uint64_t va = (k->line << SP_LINE_BITS) + 4u * (uint32_t)__builtin_ctz(dwords);
        if (k->kind == SP_RACE_DEVICE)
            saw(&k->r->wave[k->w->id], k->r, va, atomic ? 0 : write->who);
        else if (!atomic)
            sp_order_release(k->r->all, va, write->who);
    }
}

const uint8_t *sp_memory_host(const struct sp_look *k, uint64_t va)
{
    struct sp_emu_tlb *tlb = k->w->tlb;
    const uint8_t *host = sp_emu_at(tlb, va, k->kind <= SP_RACE_DEVICE ? SP_VM_READ | SP_VM_DEVICE : SP_VM_WRITE);
    const struct sp_emu_entry *e = &tlb->entry[SP_TLB_L2][(va >> tlb->bits) % SP_VM_TLB];
    return host && e->page == va >> tlb->bits ? host : NULL; /* a PRT range has no TLB entry */
}

void sp_memory_settle(const struct sp_look *k, const struct sp_mark *m)
{
    struct sp_races *all = k->r->all;
    struct sp_race_page *page = all->threads > 1 ? sp_race_page_of(k->r, k->line << SP_LINE_BITS) : NULL;
    for (uint32_t n = 0; page && n < all->threads; n++) {
        const struct sp_race_group *other = __atomic_load_n(&all->groups[n], __ATOMIC_ACQUIRE);
        uint64_t told = other ? __atomic_load_n(&other->told, __ATOMIC_ACQUIRE) : 0;
        if (!other || other == k->r) continue;
        sp_race_unlock(k->r, page);
        for (uint32_t slept = 0; slept < SETTLE_MOST && __atomic_load_n(&other->told, __ATOMIC_ACQUIRE) == told &&
                                 __atomic_load_n(&other->group, __ATOMIC_ACQUIRE) == sp_who_group(m->who);
             slept++)
            nanosleep(&(struct timespec){0, 100000}, NULL);
        sp_race_lock(k->r, page);
    }
}

void sp_race_acquires(struct sp_wave *w, const struct sp_race_lanes *a)
{
    struct sp_race_group *r = w->race;
    uint64_t last = 1, who = sp_race_who(w);
    for (uint64_t left = a->lanes; left; left &= left - 1) {
        uint64_t va = a->va[__builtin_ctzll(left)] & ~UINT64_C(3), by = 0;
        struct sp_race_page *page = va == last ? NULL : sp_race_page_of(r, va);
        last = va;
        if (!page) continue;
        sp_race_lock(r, page);
        const struct sp_line *line = &page->line[(va >> SP_LINE_BITS) % SP_PAGE_LINES];
        const struct sp_mark *m = line->apart ? &line->dword[va / 4 % SP_LINE_DWORDS].write : &line->all.write;
        if ((m->how & (SP_MARK_ATOMIC | SP_MARK_MAYBE)) == SP_MARK_MAYBE && sp_who_other(m->who, who)) by = m->who;
        sp_race_unlock(r, page);
        saw(&r->wave[w->id], r, va, by);
    }
}

void sp_race_invalidated(struct sp_wave *w)
{
    struct sp_race_wave *me = &w->race->wave[w->id];
    uint32_t count = me->seen_count < SP_RACE_PENDING ? me->seen_count : SP_RACE_PENDING;
    me->seen_count = 0;
    if (count) sp_order_acquire(w->race->all, sp_race_who(w), me->seen, count);
}
