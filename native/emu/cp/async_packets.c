/* Packets that the command processor starts without waiting for their end: dispatches, DMA_DATA
 * without CP_SYNC, WRITE_DATA without WR_CONFIRM, RELEASE_MEM. A started packet goes into a list,
 * until another packet waits for it, the list is full or the job ends. Then the packets of the list
 * that have no order between them are executed in an order drawn from the seed.
 *
 * Two unordered packets that touch the same byte are a fault, in whichever order they run. Each
 * packet logs its accesses (emu/order) if others are under way. So a dispatch that runs alone, with
 * a wait after it, needs no log.
 *
 * Sources for the order: docs/AMDGPU_FACTS.md 3.3, 3.5, 6.2. CP_SYNC and RAW_WAIT: Mesa,
 * si_cp_dma.c and radv_cp_dma.c (`cp_dma_wait_for_idle` waits by a DMA_DATA of 0 bytes with
 * CP_SYNC). WR_CONFIRM: Mesa sets it wherever a shader reads the written bytes. */
#include "async_packets.h"
#include "emu/order/log.h"
#include "gen/pm4_packets.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLACES = 12, UNDER_WAY_MOST = 8, PLACES_ALL = (1 << PLACES) - 1 };

/* An entry of the list sp_late.at of started packets; comments call the entry's index its place.
 * The entry becomes free when its packet has ended and no pending packet needs the log of its
 * accesses. */
struct late {
    struct sp_log log;
    const struct sp_packet *desc;
    uint64_t va;
    uint32_t ndw, *p; /* copy of the packet: its number of dwords, and its dwords */
    struct sp_emu_dispatch d;
    uint32_t with;  /* bit i: the packet in sp_late.at[i] may run at the same time as this one */
    uint32_t after; /* bit i: the packet in sp_late.at[i] must be executed before this one */
};

struct sp_late {
    struct late at[PLACES];
    /* Masks in which bit i is about at[i]. used: at[i] holds a packet. waiting: this packet is not
     * executed yet. ended: this packet has ended, so it precedes every packet that starts later. */
    uint32_t used, waiting, ended;
    uint32_t now;                  /* index in `at` of the packet being executed; PLACES: none */
    uint32_t dispatches;           /* 1: the packet being executed has started a dispatch */
    uint64_t number, random;
};

static uint32_t draw(struct sp_late *late, uint32_t below)
{
    late->random = late->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((late->random >> 33) % below);
}

static uint32_t of_kind(const struct sp_late *late, uint32_t among, enum sp_ended_by kind)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < PLACES; i++) found |= (uint32_t)(among >> i & 1 && late->at[i].log.ended_by == kind) << i;
    return found;
}

static uint32_t under_way(const struct sp_late *late)
{
    return late->used & ~late->ended;
}

static void tidy(struct sp_late *late)
{
    uint32_t asked = 0;
    for (uint32_t i = 0; i < PLACES; i++) asked |= late->waiting >> i & 1 ? late->at[i].with : 0;
    for (uint32_t i = 0; i < PLACES; i++) {
        uint32_t bit = 1u << i;
        if (!(late->used & late->ended & ~late->waiting & ~asked & bit)) continue;
        sp_log_clear(&late->at[i].log);
        free(late->at[i].p);
        late->at[i].p = NULL;
        late->used &= ~bit;
        for (uint32_t k = 0; k < PLACES; k++) {
            late->at[k].with &= ~bit;
            late->at[k].after &= ~bit;
        }
    }
}

static void end(struct sp_late *late, uint32_t places)
{
    late->ended |= places;
    tidy(late);
}

void sp_async_forget(struct sp_emu_exec *x)
{
    struct sp_late *late = x->late;
    if (!late) return;
    late->waiting = 0;
    late->now = PLACES;
    end(late, late->used);
}

/* Begins to check the accesses of the packet in the list entry at[place] against those of packets
 * that may run at the same time. If `beside` is 1, it also records them in the packet's log. A
 * packet needs no log if no other packet may run at the same time. Dispatches with scratch are not
 * logged either (emu/order/README.md). */
static void watch(struct sp_cp *cp, uint32_t place, int beside)
{
    struct sp_late *late = cp->x->late;
    struct sp_watch *w = cp->x->watch;
    w->row[SP_WATCH_PACKETS].others = 0;
    for (uint32_t i = 0; i < PLACES; i++)
        if (late->at[place].with >> i & 1)
            w->row[SP_WATCH_PACKETS].other[w->row[SP_WATCH_PACKETS].others++] = &late->at[i].log;
    sp_emu_watch_packet(cp->x, beside ? &late->at[place].log : NULL);
}

static int watched(struct sp_cp *cp, int rc)
{
    sp_emu_watch_packet(cp->x, NULL);
    if (!cp->x->watch->found[0]) return rc;
    cp->named = 1;
    return sp_watch_fault(cp->x->watch, &cp->x->fault);
}

static int perform(struct sp_cp *cp, uint32_t place, int alone)
{
    struct sp_late *late = cp->x->late;
    struct late *l = &late->at[place];
    late->waiting &= ~(1u << place);
    cp->desc = l->desc;
    cp->va = l->va;
    cp->ndw = l->ndw;
    watch(cp, place, (!alone || l->with) && !l->d.scratch_wave);
    int rc;
    if (l->log.ended_by == SP_ENDS_WAVES) {
        rc = sp_emu_dispatch(&l->d, cp->x);
    } else {
        memcpy(cp->p, l->p, 4u * l->ndw);
        rc = cp->execute(cp);
    }
    return watched(cp, rc);
}

/* Executes the started packets at[i] for which bit i of `wanted` is set. A random draw decides
 * which other started packets, of those that may run now, are executed too. `alone`: no later
 * packet can run at the same time as the wanted ones. */
static int go(struct sp_cp *cp, uint32_t wanted, int alone)
{
    struct sp_late *late = cp->x->late;
    const struct sp_packet *desc = cp->desc;
    uint64_t va = cp->va;
    uint32_t ndw = cp->ndw, *p = NULL, may[PLACES], n;
    int rc = 0;
    if (!(late->waiting & wanted)) return 0;
    if (!(p = malloc(4u * ndw + 4u))) return -ENOMEM;
    memcpy(p, cp->p, 4u * ndw);
    while (rc == 0 && late->waiting & wanted) {
        n = 0;
        for (uint32_t i = 0; i < PLACES; i++)
            if (i != late->now && late->waiting >> i & 1 && !(late->at[i].after & late->waiting)) may[n++] = i;
        uint32_t next = n ? may[draw(late, n)] : PLACES;
        rc = n ? perform(cp, next, alone && wanted >> next & 1) : -EINVAL;
    }
    if (rc == 0) {
        cp->desc = desc;
        cp->va = va;
        cp->ndw = ndw;
        memcpy(cp->p, p, 4u * ndw);
    }
    free(p);
    return rc;
}

enum role { AT_ONCE, STARTED, BY_ITSELF, WAITS_FOR_WAVES, WAITS_FOR_DMA, WAITS_FOR_PIPE };

/* Returns how the command processor executes the packet at cp->p: at once, or after a wait, or as
 * an entry of the list `late` of started packets. `*kind` receives the event by which later packets
 * wait for the packet's end. */
static enum role role_of(const struct sp_cp *cp, enum sp_ended_by *kind)
{
    const uint32_t *p = cp->p;
    *kind = SP_ENDS_HERE;
    switch (cp->desc->code) {
    case PM4_DISPATCH_DIRECT:
    case PM4_DISPATCH_INDIRECT: *kind = SP_ENDS_WAVES; return BY_ITSELF;
    case PM4_RELEASE_MEM: *kind = SP_ENDS_RELEASE; return STARTED;
    case PM4_DMA_DATA:
        *kind = SP_ENDS_DMA;
        return sp_get(p, PM4_DMA_DATA_CONTROL_CP_SYNC) ? WAITS_FOR_DMA : STARTED;
    case PM4_WRITE_DATA:
        if (sp_get(p, PM4_WRITE_DATA_CONTROL_DST_SEL) == PM4_COPY_SEL_REGISTER) return AT_ONCE;
        if (!sp_get(p, PM4_WRITE_DATA_CONTROL_WR_CONFIRM)) *kind = SP_ENDS_WRITE;
        return *kind == SP_ENDS_WRITE ? STARTED : BY_ITSELF;
    case PM4_COPY_DATA:
        if (!sp_get(p, PM4_COPY_DATA_CONTROL_WR_CONFIRM) &&
            sp_get(p, PM4_COPY_DATA_CONTROL_DST_SEL) != PM4_COPY_SEL_REGISTER)
            *kind = SP_ENDS_WRITE;
        return BY_ITSELF;
    case PM4_COND_EXEC:
    case PM4_ATOMIC_MEM: return BY_ITSELF;
    case PM4_EVENT_WRITE:
        return sp_get(p, PM4_EVENT_WRITE_EVENT_TYPE) == PM4_EVENT_CS_PARTIAL_FLUSH ? WAITS_FOR_WAVES : AT_ONCE;
    case PM4_ACQUIRE_MEM:
        return cp->x->chip->generation >= 11 && sp_get(p, PM4_ACQUIRE_MEM_POLL_PWS_ENA) ? WAITS_FOR_PIPE : AT_ONCE;
    default: return AT_ONCE;
    }
}

/* Returns a mask: bit i is set if the started packet at[i] must be executed before the packet at
 * cp->p. `kind` is the event by which later packets wait for the packet at cp->p. The command
 * processor's stores keep their order. RELEASE_MEM is executed after all earlier packets, a copy
 * with RAW_WAIT after earlier copies. */
static uint32_t comes_after(const struct sp_cp *cp, enum sp_ended_by kind)
{
    const struct sp_late *late = cp->x->late;
    if (kind == SP_ENDS_RELEASE) return under_way(late);
    if (kind == SP_ENDS_WRITE || kind == SP_ENDS_HERE) return of_kind(late, under_way(late), SP_ENDS_WRITE);
    if (kind == SP_ENDS_DMA && (sp_get(cp->p, PM4_DMA_DATA_COMMAND_RAW_WAIT) || sp_get(cp->p, PM4_DMA_DATA_COMMAND_BYTE_COUNT) == 0))
        return of_kind(late, under_way(late), SP_ENDS_DMA);
    return 0;
}

/* Puts the packet at cp->p into a free entry of the list of started packets, cp->x->late->at.
 * Returns the index of the entry, or -errno. If too many packets are under way, the oldest one is
 * ended first. */
static int take_place(struct sp_cp *cp, enum sp_ended_by kind)
{
    struct sp_late *late = cp->x->late;
    if (__builtin_popcount(under_way(late)) >= UNDER_WAY_MOST || late->used == PLACES_ALL) {
        int rc = go(cp, PLACES_ALL, 0);
        if (rc) return rc;
        tidy(late);
        uint32_t oldest = 0;
        for (uint32_t i = 1; i < PLACES; i++)
            if (!(under_way(late) >> oldest & 1) || (under_way(late) >> i & 1 && late->at[i].log.number < late->at[oldest].log.number))
                oldest = i;
        if (__builtin_popcount(under_way(late)) >= UNDER_WAY_MOST) end(late, 1u << oldest);
    }
    uint32_t place = (uint32_t)__builtin_ctz(~late->used), bit = 1u << place;
    struct late *l = &late->at[place];
    l->p = malloc(4u * cp->ndw);
    if (!l->p) return -ENOMEM;
    memcpy(l->p, cp->p, 4u * cp->ndw);
    l->desc = cp->desc;
    l->va = cp->va;
    l->ndw = cp->ndw;
    l->d.scratch_wave = 0;
    l->log.number = ++late->number;
    l->log.ended_by = kind;
    snprintf(l->log.name, sizeof l->log.name, "%s at 0x%llx", cp->desc->name, (unsigned long long)cp->va);
    l->after = comes_after(cp, kind);
    l->with = under_way(late) & ~l->after;
    for (uint32_t i = 0; i < PLACES; i++)
        if (l->with >> i & 1) late->at[i].with |= bit;
    late->used |= bit;
    late->waiting |= bit;
    late->ended &= ~bit;
    return (int)place;
}

static int is_write(const struct sp_cp *cp)
{
    return cp->desc->code == PM4_WRITE_DATA || cp->desc->code == PM4_COPY_DATA;
}

/* Executes at once a packet that the command processor performs itself. A random draw decides
 * whether all pending started packets run before it; before an ATOMIC_MEM they always do. If the
 * packet reads the GPU clock, only those run before it that must. */
static int by_itself(struct sp_cp *cp, enum sp_ended_by kind)
{
    struct sp_late *late = cp->x->late;
    int is_clock = cp->desc->code == PM4_COPY_DATA && sp_get(cp->p, PM4_COPY_DATA_CONTROL_SRC_SEL) == PM4_COPY_SEL_GPU_CLOCK;
    int place = take_place(cp, kind), rc = 0;
    if (place < 0) return place;
    late->now = (uint32_t)place;
    late->dispatches = 0;
    if (kind != SP_ENDS_WAVES) {
        int all = !is_clock && (draw(late, 2) || cp->desc->code == PM4_ATOMIC_MEM);
        rc = go(cp, (all ? PLACES_ALL : late->at[place].after) & ~(1u << place), 0);
    }
    if (rc == 0) {
        watch(cp, (uint32_t)place, late->at[place].with != 0 || kind != SP_ENDS_HERE);
        rc = watched(cp, cp->execute(cp));
    }
    late->now = PLACES;
    if (rc == 0 && !late->dispatches) late->waiting &= ~(1u << place);
    if (rc == 0 && (kind == SP_ENDS_HERE || (kind == SP_ENDS_WAVES && !late->dispatches)))
        end(late, 1u << place | (is_write(cp) ? of_kind(late, under_way(late), SP_ENDS_WRITE) : 0));
    return rc;
}

/* Executes and ends the started packets at[i] for which bit i of `of` is set. */
static int wait_for(struct sp_cp *cp, uint32_t of)
{
    int rc = go(cp, of, 1);
    if (rc == 0) end(cp->x->late, of);
    return rc;
}

/* Returns a mask of list entries: the RELEASE_MEM in at[release], and all packets under way that
 * were started before it. Whoever has waited for the RELEASE_MEM knows that all of these have
 * ended. */
static uint32_t up_to(const struct sp_late *late, uint32_t release)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < PLACES; i++) found |= (uint32_t)(late->at[i].log.number <= late->at[release].log.number) << i;
    return found & under_way(late);
}

/* Searches the list entries in the mask `of` for the newest RELEASE_MEM that writes at `*va`. With
 * `va` NULL, it searches for the newest one with the field PWS_ENABLE (pixel wait sync). Returns
 * its index in `at`, or PLACES if there is none. */
static uint32_t release_of(const struct sp_late *late, uint32_t of, const uint64_t *va)
{
    uint32_t found = PLACES;
    of = of_kind(late, of, SP_ENDS_RELEASE);
    for (uint32_t i = 0; i < PLACES; i++) {
        const struct late *l = &late->at[i];
        if (of >> i & 1 && (va ? sp_emu_canonical(sp_get64(l->p, PM4_RELEASE_MEM_ADDR) ^ *va) == 0
                               : sp_get(l->p, PM4_RELEASE_MEM_EVENT_PWS_ENABLE)) &&
            (found == PLACES || l->log.number > late->at[found].log.number))
            found = i;
    }
    return found;
}

int sp_async_run_ready(struct sp_cp *cp)
{
    return cp->x->late ? go(cp, PLACES_ALL, 0) : 0;
}

void sp_async_wait_met(struct sp_cp *cp, uint64_t va)
{
    struct sp_late *late = cp->x->late;
    uint32_t release = late ? release_of(late, under_way(late) & ~late->waiting, &va) : PLACES;
    if (release != PLACES) end(late, up_to(late, release));
}

int sp_async_dispatch(struct sp_cp *cp, const struct sp_emu_dispatch *d)
{
    struct sp_late *late = cp->x->late;
    if (!late || late->now == PLACES) return sp_emu_dispatch(d, cp->x);
    late->at[late->now].d = *d;
    late->dispatches = 1;
    return 0;
}

static int has_list(struct sp_cp *cp)
{
    struct sp_late *late = cp->x->late;
    if (sp_cp_lenient(cp, SP_LENIENT_ORDER)) return 0;
    if (late) return 1;
    late = cp->x->late = calloc(1, sizeof *late);
    if (!late) return 0;
    late->now = PLACES;
    late->random = cp->x->seed;
    return 1;
}

int sp_async_packet(struct sp_cp *cp)
{
    enum sp_ended_by kind;
    if (!has_list(cp)) return cp->execute(cp);
    enum role role = role_of(cp, &kind);
    struct sp_late *late = cp->x->late;
    uint32_t release = role == WAITS_FOR_PIPE ? release_of(late, under_way(late), NULL) : PLACES;
    int rc = 0;
    if (role == BY_ITSELF && (late->used || kind != SP_ENDS_HERE)) return by_itself(cp, kind);
    if (role == WAITS_FOR_WAVES) rc = wait_for(cp, of_kind(late, under_way(late), SP_ENDS_WAVES));
    if (release != PLACES) rc = wait_for(cp, up_to(late, release));
    if (rc != 0 || (role != STARTED && role != WAITS_FOR_DMA)) return rc != 0 ? rc : cp->execute(cp);
    /* Executes the packet at once. Nothing else is under way, so no agent can see whether this
     * packet ends now or later. */
    if (!under_way(late) && (role == WAITS_FOR_DMA || kind == SP_ENDS_RELEASE)) return cp->execute(cp);
    rc = take_place(cp, kind);
    if (rc < 0 || role == STARTED) return rc < 0 ? rc : 0;
    return wait_for(cp, of_kind(late, under_way(late), SP_ENDS_DMA));
}

void sp_async_free(struct sp_emu_exec *x)
{
    sp_async_forget(x);
    free(x->late);
    x->late = NULL;
}

int sp_async_end(struct sp_cp *cp, int followed)
{
    return go(cp, PLACES_ALL, !followed);
}
