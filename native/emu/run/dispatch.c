/* Runs a dispatch as groups of waves. It sets what the launcher (SPI) sets: initial SGPRs and
 * VGPRs, LDS and scratch. It also decides the order in which groups and waves run.
 *
 * native/emu/cp/launch.c, which knows the registers, has checked the dispatch. A thread runs one
 * group at a time, and the waves of the group in turn, a slice each. With one thread the order is
 * always the same. Source: LLVM's AMDGPU usage document, initial register contents. */
#include "dispatch.h"
#include "code.h"
#include "run.h"
#include "emu/memory/caches.h"
#include "emu/race/race.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { SLICE = 4096, SHORT_SLICE = 8, LDS_MOST = 65536, WAVES_MOST = 64 };

/* State of a dispatch that all host threads share. */
struct launch {
    const struct sp_emu_dispatch *d;
    struct sp_emu_exec *x;
    uint32_t waves_most; /* number of waves of a full group */
    uint32_t threads;
    uint64_t groups;
    uint64_t next;   /* number of the next group to run; threads access it atomically */
    struct sp_races *races; /* NULL: the dispatch is not checked for races */
    uint32_t failed; /* 1: a thread has stopped with an error; threads access it atomically */
};

/* State of one host thread: TLB, code and the waves of its present group. */
struct worker {
    struct launch *launch;
    uint32_t index;
    int rc;
    uint64_t lane_ops;
    struct sp_emu_fault fault;
    struct sp_emu_tlb *tlb;
    struct sp_caches *caches; /* NULL: there are no caches, and all waves share `tlb` */
    struct sp_race_group *race;
    uint64_t number; /* number of the worker's present group */
    uint64_t since_check; /* instructions since the worker last checked the job's time limit */
    uint64_t *counted_ns; /* CPU time of the worker's thread that the job's work already has */
    struct sp_code *code;
    struct sp_group group;
    struct sp_wave *waves[WAVES_MOST];
    /* in strict mode, for each wave of the group: a bitmap with one bit per dword of the wave's
     * scratch; the bit is set when the dword is written */
    uint64_t *scratch_written[WAVES_MOST];
    pthread_t thread;
};

static int no_memory(struct sp_emu_exec *x)
{
    return sp_emu_fault_set(&x->fault, SP_FAULT_DISPATCH, -EFAULT, "dispatch: no memory for waves");
}

/* Returns the offset of a wave's scratch in the scratch ring. The first wave has the last place of
 * the ring, whose size TMPRING_SIZE gives. So if a driver gives the ring too little memory, even
 * the first wave accesses memory beyond it, which is a fault. */
static uint64_t scratch_offset(const struct worker *k, uint32_t wave)
{
    const struct sp_emu_dispatch *d = k->launch->d;
    if (sp_emu_flaw(k->launch->x->chip, SP_FLAW_SCRATCH)) wave = 0;
    return d->scratch_wave * (d->scratch_slots - 1 - (k->index * k->launch->waves_most + wave));
}

static void set_sgpr(struct sp_wave *w, uint32_t *n, uint32_t value)
{
    w->s[*n] = value;
    w->sgpr_ready[(*n)++] = 1;
}

/* Sets the initial SGPRs. The user SGPRs come first. Those that the dispatch enables follow: group
 * ids, TG_SIZE, then (on gfx10) the scratch offset. */
static void initial_sgprs(const struct worker *k, struct sp_wave *w)
{
    const struct sp_emu_dispatch *d = k->launch->d;
    uint32_t n = 0, waves = k->group.waves;
    while (n < d->user_sgprs) {
        uint32_t set = d->user_data_set >> n & 1;
        set_sgpr(w, &n, set || w->strict ? d->user_data[n] : 0);
        w->sgpr_ready[n - 1] = (uint8_t)set;
    }
    for (uint32_t dim = 0; dim < 3; dim++)
        if (d->group_ids >> dim & 1) set_sgpr(w, &n, k->group.id[dim]);
    /* TG_SIZE has the number of waves in [5:0], and the wave's number in both [11:6] and [24:20],
     * because versions of Mesa read different ones. */
    if (d->tg_size) set_sgpr(w, &n, waves | w->id << 6 | w->id << 20 | (uint32_t)(w->id == 0) << 26);
    if (w->generation == 10 && d->scratch) set_sgpr(w, &n, (uint32_t)scratch_offset(k, w->id));
    w->s[SP_EXEC] = (uint32_t)w->exec;
    w->s[SP_EXEC + 1] = (uint32_t)(w->exec >> 32);
    w->sgpr_ready[SP_EXEC] = w->sgpr_ready[SP_EXEC + 1] = w->sgpr_ready[SP_SRC_NULL] = 1;
    w->s[SP_SRC_NULL] = 0;
    /* From gfx10 on, a launch sets neither M0 nor VCC, but programs may save them. So an emulator
     * that is not strict treats every SGPR as defined. */
    if (!w->strict) memset(w->sgpr_ready, 1, sizeof w->sgpr_ready);
}

/* Sets the thread ids: on gfx11 v0 has all three, ten bits each; on gfx10 they are in v0, v1,
 * v2. */
static void initial_vgprs(const struct worker *k, struct sp_wave *w, const uint32_t size[3])
{
    uint32_t dims = k->launch->d->thread_ids, threads = size[0] * size[1] * size[2];
    const struct sp_emu_chip *chip = k->launch->x->chip;
    bool half = sp_emu_flaw(chip, SP_FLAW_WAVE64), swapped = sp_emu_flaw(chip, SP_FLAW_IDS);
    uint64_t active = 0;
    for (uint32_t l = 0; l < w->lanes; l++) {
        uint32_t t = w->id * w->lanes + (half && w->lanes == 64 ? l % 32 : l);
        uint32_t id[3] = {t % size[0], t / size[0] % size[1], t / size[0] / size[1]};
        active |= (uint64_t)(t < threads) << l;
        if (swapped) {
            uint32_t y = id[1];
            id[1] = id[2];
            id[2] = y;
        }
        for (uint32_t dim = 0; dim < dims; dim++) {
            if (w->generation == 11)
                w->v[0][l] = (dim ? w->v[0][l] : 0) | id[dim] << 10 * dim;
            else
                w->v[dim][l] = id[dim];
        }
    }
    for (uint32_t r = 0; r < (w->generation == 11 ? 1 : dims); r++) w->vgpr_ready[r] = w->full;
    w->exec = active;
    w->active = (uint32_t)__builtin_popcountll(active);
}

/* Returns the number of bytes of a bitmap with one bit per dword of a wave's scratch. */
static size_t scratch_marks(uint64_t scratch_wave) { return (size_t)(scratch_wave / 4 + 63) / 64 * 8; }

/* Fills the registers that hardware does not initialise. On hardware they hold the values of an
 * earlier wave. Here they get a pattern in strict mode, else 0. */
static void poison(struct sp_wave *w, uint32_t vgprs)
{
    bool lenient = !w->strict;
    for (uint32_t r = 0; r < vgprs; r++) {
        memset(w->v[r], lenient ? 0 : 0xCD, sizeof w->v[r]);
        w->vgpr_ready[r] = lenient ? UINT64_MAX : 0;
    }
    memset(w->s, lenient ? 0 : 0xCD, sizeof w->s);
    memset(w->sgpr_ready, 0, sizeof w->sgpr_ready);
    w->scc = lenient ? 0 : SP_SCC_UNDEFINED;
    if (w->scratch_written) memset(w->scratch_written, 0, scratch_marks(w->scratch_bytes));
}

static void launch_wave(struct worker *k, struct sp_wave *w, uint32_t id, const uint32_t size[3])
{
    const struct launch *l = k->launch;
    const struct sp_emu_dispatch *d = l->d;
    memset(w, 0, offsetof(struct sp_wave, v));
    w->x = l->x;
    w->tlb = k->caches ? sp_caches_tlb(k->caches, k->number, id, d->wgp_mode, l->x->tlb.view, &k->fault) : k->tlb;
    w->fault = &k->fault;
    w->group = &k->group;
    w->code = k->code;
    w->race = k->race;
    w->generation = l->x->chip->generation;
    w->lanes = d->lanes;
    w->full = d->lanes == 64 ? UINT64_MAX : UINT32_MAX;
    w->id = id;
    w->strict = !(l->x->lenient & SP_LENIENT_UNINITIALISED);
    w->vgpr_count = d->vgprs;
    w->next = d->code;
    w->mode = d->mode;
    w->scratch_bytes = d->scratch_wave;
    w->scratch_written = k->scratch_written[id];
    if (w->generation == 11) w->flat_scratch = d->scratch_base + (d->scratch_wave ? scratch_offset(k, id) : 0);
    poison(w, d->vgprs);
    initial_vgprs(k, w, size);
    initial_sgprs(k, w);
}

/* --- running the groups of a dispatch --- */
static int stopped_from_outside(struct worker *k)
{
    const struct launch *l = k->launch;
    struct sp_emu_exec *x = l->x;
    if (x->cancel && __atomic_load_n(x->cancel, __ATOMIC_RELAXED)) return -ECANCELED;
    /* another thread's group has failed: this thread's group may wait for ever for a value that the
     * failed one was to write */
    if (__atomic_load_n(&l->failed, __ATOMIC_RELAXED)) return -ECANCELED;
    if (!sp_emu_worked(x, k->counted_ns)) return 0;
    return sp_emu_fault_set(&k->fault, SP_FAULT_TIMEOUT, -ETIME, "the job ran longer than its time limit");
}

/* Releases a barrier when all waves of the group that still run have arrived. Returns true if the
 * barrier was released. */
static bool release_barrier(struct worker *k)
{
    bool any = false;
    for (uint32_t n = 0; n < k->group.waves; n++) {
        if (k->waves[n]->state == SP_WAVE_GO) return false;
        any |= k->waves[n]->state == SP_WAVE_BARRIER;
    }
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(k->launch->x->chip, SP_FLAW_LDS);
    if (any && flaw && flaw->a < k->group.lds_bytes) k->group.lds[flaw->a] ^= (uint8_t)(1U << flaw->b % 8);
    if (any && k->race) sp_race_group_barrier(k->race);
    for (uint32_t n = 0; any && n < k->group.waves; n++)
        if (k->waves[n]->state == SP_WAVE_BARRIER) k->waves[n]->state = SP_WAVE_GO;
    return any;
}

static int run_group(struct worker *k)
{
    uint32_t live = k->group.waves;
    /* With this flaw, waves share scratch memory. Switching waves after few instructions lets them
     * disturb each other. */
    uint32_t slice = sp_emu_flaw(k->launch->x->chip, SP_FLAW_SCRATCH) ? SHORT_SLICE : SLICE;
    while (live) {
        for (uint32_t n = 0; n < k->group.waves; n++) {
            struct sp_wave *w = k->waves[n];
            if (w->state != SP_WAVE_GO) continue;
            uint64_t before = w->instructions;
            int rc = sp_wave_run(w, slice);
            k->since_check += w->instructions - before;
            if (rc == SP_WAVE_FAULT) return -EFAULT;
            if (rc == SP_WAVE_END || rc == SP_WAVE_BARRIER) w->state = (uint32_t)rc;
            live -= rc == SP_WAVE_END;
            if (k->since_check >= SLICE || rc == SP_WAVE_YIELD) {
                k->since_check = 0;
                if ((rc = stopped_from_outside(k)) != 0) {
                    if (rc == -ETIME) sp_wave_fault_at(w, 0);
                    return rc;
                }
            }
        }
        release_barrier(k);
    }
    return 0;
}

static int one_group(struct worker *k, uint64_t number)
{
    const struct launch *l = k->launch;
    const struct sp_emu_dispatch *d = l->d;
    uint32_t size[3], threads = 1;
    k->number = number;
    if (k->race) sp_race_group_next(k->race, number);
    for (int dim = 0; dim < 3; dim++) {
        uint32_t count = d->end[dim] - d->begin[dim];
        k->group.id[dim] = d->begin[dim] + (uint32_t)(number % count);
        number /= count;
        size[dim] = k->group.id[dim] == d->end[dim] - 1 ? d->last[dim] : d->size[dim];
        threads *= size[dim];
    }
    k->group.waves = (threads + d->lanes - 1) / d->lanes;
    k->group.lds_bytes = d->lds_bytes;
    if (l->x->lenient & SP_LENIENT_UNINITIALISED)
        memset(k->group.lds, 0, d->lds_bytes);
    else
        sp_lds_unwrite(&k->group, 0, d->lds_bytes / 4);
    for (uint32_t n = 0; n < k->group.waves; n++) launch_wave(k, k->waves[n], n, size);
    int rc = run_group(k);
    for (uint32_t n = 0; n < k->group.waves; n++) k->lane_ops += k->waves[n]->lane_ops;
    return rc;
}

static void worker_free(struct worker *k)
{
    for (uint32_t n = 0; n < WAVES_MOST; n++) {
        free(k->waves[n]);
        free(k->scratch_written[n]);
    }
    sp_code_free(k->code);
    free(k->tlb);
    free(k->group.lds);
    free(k->group.lds_written);
}

static int worker_init(struct worker *k, struct launch *l, uint32_t index)
{
    k->launch = l;
    k->index = index;
    k->code = sp_code_new(l->x->chip->generation);
    bool cached = l->x->tlb.l2 != NULL;
    k->caches = cached ? sp_caches_begin(&l->x->caches[index], &l->x->tlb) : NULL;
    k->tlb = cached ? NULL : calloc(1, sizeof *k->tlb);
    k->group.lds = malloc(LDS_MOST + 16);
    k->group.lds_written = malloc(LDS_MOST / 4 + 4);
    if (l->races) k->race = sp_race_group_begin(l->races, index, l->d->begin, l->d->end, l->d->wgp_mode, sp_code_name);
    bool ok = k->code && (k->race || !l->races) && (k->tlb || k->caches) && k->group.lds && k->group.lds_written;
    for (uint32_t n = 0; n < l->waves_most; n++) {
        k->waves[n] = aligned_alloc(64, (sizeof *k->waves[n] + 63) / 64 * 64);
        ok &= k->waves[n] != NULL;
        if (l->d->scratch_wave && !(l->x->lenient & SP_LENIENT_UNINITIALISED))
            ok &= (k->scratch_written[n] = malloc(scratch_marks(l->d->scratch_wave))) != NULL;
    }
    if (ok && k->tlb) sp_emu_tlb_reset(k->tlb, l->x->tlb.view, &k->fault);
    return ok ? 0 : -ENOMEM;
}

static void *worker_run(void *self)
{
    struct worker *k = self;
    struct launch *l = k->launch;
    uint64_t begin_ns = sp_emu_thread_ns();
    k->counted_ns = k->index ? &begin_ns : &l->x->cpu_ns; /* the ring's thread is the first worker */
    while (!__atomic_load_n(&l->failed, __ATOMIC_RELAXED)) {
        uint64_t number = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);
        if (number >= l->groups) break;
        k->rc = one_group(k, number);
        if (k->rc) {
            __atomic_store_n(&l->failed, 1, __ATOMIC_RELAXED);
            break;
        }
    }
    return NULL;
}

static uint32_t threads_of(const struct launch *l)
{
    uint64_t n = l->x->threads && !l->x->trace ? l->x->threads : 1;
    if (n > SP_EXEC_THREADS) n = SP_EXEC_THREADS;
    if (n > l->groups) n = l->groups;
    if (l->d->scratch_wave && n * l->waves_most > l->d->scratch_slots) n = l->d->scratch_slots / l->waves_most;
    return (uint32_t)(n ? n : 1);
}

/* Collects the results of the workers. The first worker that failed by itself, and was not stopped
 * by another's failure, determines the dispatch's error. */
static int collect(struct launch *l, struct worker *workers)
{
    int rc = 0;
    for (uint32_t n = 0; n < l->threads; n++) {
        l->x->lane_ops += workers[n].lane_ops;
        if (!workers[n].rc || (rc && rc != -ECANCELED)) continue;
        rc = workers[n].rc;
        if (l->x->fault.kind == SP_FAULT_NONE) l->x->fault = workers[n].fault;
    }
    return rc;
}

/* Returns true if a planted flaw makes waves race that would not race on a healthy card. Such a
 * dispatch is not checked for races, because a race would hide the real flaw. */
static bool flaw_causes_races(const struct sp_emu_chip *chip)
{
    return sp_emu_flaw(chip, SP_FLAW_IDS) || sp_emu_flaw(chip, SP_FLAW_WAVE64) || sp_emu_flaw(chip, SP_FLAW_SCRATCH);
}

int sp_emu_dispatch(const struct sp_emu_dispatch *d, struct sp_emu_exec *x)
{
    struct launch l = {.d = d, .x = x, .groups = 1};
    uint32_t started = 0;
    int rc = 0;
    if (sp_emu_flaw(x->chip, SP_FLAW_DISPATCH)) return 0;
    /* if the number of groups needs more than 64 bits, UINT64_MAX replaces it: so long a job
     * reaches its time limit anyway */
    for (int dim = 0; dim < 3; dim++)
        if (__builtin_mul_overflow(l.groups, (uint64_t)(d->end[dim] - d->begin[dim]), &l.groups)) l.groups = UINT64_MAX;
    l.waves_most = (d->size[0] * d->size[1] * d->size[2] + d->lanes - 1) / d->lanes;
    l.threads = threads_of(&l);
    bool races = !(x->lenient & SP_LENIENT_RACES) && !flaw_causes_races(x->chip);
    if (races && !(l.races = sp_races_begin(x, l.threads))) return no_memory(x);
    struct worker *workers = calloc(l.threads, sizeof *workers);
    if (!workers) return no_memory(x);
    for (uint32_t n = 0; n < l.threads && !rc; n++) rc = worker_init(&workers[n], &l, n);
    if (rc) {
        rc = no_memory(x);
        goto out;
    }
    for (uint32_t n = 1; n < l.threads; n++) {
        if (pthread_create(&workers[n].thread, NULL, worker_run, &workers[n])) break;
        started = n;
    }
    worker_run(&workers[0]);
    for (uint32_t n = 1; n <= started; n++) pthread_join(workers[n].thread, NULL);
    rc = collect(&l, workers);
out:
    for (uint32_t n = 0; n < l.threads; n++)
        if (workers[n].launch) worker_free(&workers[n]);
    free(workers);
    return rc;
}
