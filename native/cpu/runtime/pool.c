/* A thread pool that runs one job at a time. The owner (the thread that calls sp_pool_run)
 * publishes a job. Sleeping or spinning workers join it through `door`. All threads draw task
 * numbers from shared counters. A second caller runs its job alone instead of waiting.
 *
 * The pool must not delay other threads, in this process or another. Workers spin only while that
 * takes a core from no other thread (core/spin.c). They stop spinning when another pool of this
 * process needs all cores (`awake`). An owner waits only for tasks that have begun, never for a
 * worker that has not joined. If spinning would take a core from another thread, the owner sleeps
 * while it waits, so that a worker can use the owner's core. */
#define _GNU_SOURCE
#include "pool.h"

#include "core/timeline.h"
#include "affinity.h"
#include "numa.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum { DOOR_INSIDE = 0x10000, DOOR_TICKETS = 0xffff };
/* HANDED_NS is the least work per thread that pays for a spinning worker. WOKEN_NS is the least
 * total work that pays for waking sleeping workers, which costs some 50 us in a virtual machine.
 * If jobs follow each other within PATIENT_NS, workers spin between them, and the second of these
 * jobs wakes sleeping workers even if it is small. If consecutive jobs take more than LATE_NS in
 * total, and fewer workers join each of them than were requested, at most MOST_LATE workers are
 * moved to other cores. */
enum { HANDED_NS = 3000, WOKEN_NS = 150000, PATIENT_NS = 1000000, LATE_NS = 100000, MOST_LATE = 16 };

/* Number of threads of all pools of this process that run a job or spin. */
static _Atomic int32_t all_awake;

static void wake_count(struct sp_pool *pool, int32_t more)
{
    atomic_fetch_add_explicit(&pool->awake, more, memory_order_relaxed);
    atomic_fetch_add_explicit(&all_awake, more, memory_order_relaxed);
}

/* Returns 1 if other pools need the core on which this thread spins. */
static int others_need_cores(struct sp_pool *pool)
{
    const int32_t all = atomic_load_explicit(&all_awake, memory_order_relaxed);
    return all > sp_cores() && all > atomic_load_explicit(&pool->awake, memory_order_relaxed);
}

static uint64_t may_spin_ns(struct sp_pool *pool)
{
    return pool->threads > (uint32_t)sp_cores() || others_need_cores(pool) ? 0 : sp_spin_ns();
}

/* Runs tasks of this thread's own NUMA node first, then tasks that other nodes have left. */
static void draw(struct sp_pool *pool, uint32_t node)
{
    sp_task_fn *const task = pool->task;
    void *const ctx = pool->ctx;
    const uint32_t nshares = pool->nshares;
    for (uint32_t n = 0; n < nshares; n++) {
        struct sp_share *const share = &pool->shares[(node + n) % nshares];
        const uint64_t end = share->end;
        for (;;) {
            const uint64_t i = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
            if (i >= end)
                break;
            task(ctx, (uint32_t)i);
        }
    }
}

static int join_job(struct sp_pool *pool)
{
    uint32_t door = atomic_load(&pool->door);
    while (door & DOOR_TICKETS)
        if (atomic_compare_exchange_weak(&pool->door, &door, door - 1 + DOOR_INSIDE))
            return 1;
    return 0;
}

static void leave_job(struct sp_pool *pool)
{
    uint32_t left = atomic_fetch_sub(&pool->door, DOOR_INSIDE) - DOOR_INSIDE;
    if (left < DOOR_INSIDE && atomic_load(&pool->owner_sleeps))
        sp_futex_wake(&pool->door, 1);
}

/* Spins until a job is published. Returns 1 then, or 0 if the time is over or other pools need the
 * core. */
static int spin_for_job(struct sp_pool *pool, uint32_t seen, uint64_t spin_ns)
{
    struct sp_spin spin = sp_spin_begin(spin_ns);
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(&pool->sequence, memory_order_acquire) != seen)
                return 1;
            sp_cpu_relax();
        }
    } while (sp_spin_on(&spin) && !others_need_cores(pool));
    return 0;
}

/* Waits until a job is published: spins, then sleeps. `*patient` is 1 if the last jobs came at
 * short intervals. */
static void await_job(struct sp_pool *pool, uint32_t seen, int *patient)
{
    const uint64_t spin_ns = may_spin_ns(pool);
    const uint64_t begun = sp_clock_ns();
    if (spin_ns) {
        wake_count(pool, 1);
        const int published = spin_for_job(pool, seen, *patient ? PATIENT_NS : spin_ns);
        wake_count(pool, -1);
        if (published)
            return;
    }
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->sequence) == seen)
        sp_futex_wait(&pool->sequence, seen, 1000000000u);
    atomic_fetch_sub(&pool->sleepers, 1);
    *patient = sp_clock_ns() - begun < PATIENT_NS;
}

/* Moves a worker off the core of the job's owner (the caller of sp_pool_run) before it draws tasks.
 * Otherwise the owner would wait for this worker, and this worker for the core. */
static void leave_owners_core(const struct sp_worker *self)
{
    const struct sp_pool *const pool = self->pool;
    const int owners = atomic_load_explicit(&pool->owner_cpu, memory_order_relaxed);
    if (owners == sp_core_now() && pool->threads <= (uint32_t)sp_cores())
        sp_move_off_core(atomic_load_explicit(&self->tid, memory_order_relaxed), owners);
}

static void *worker(void *arg)
{
    struct sp_worker *const self = arg;
    struct sp_pool *const pool = self->pool;
    if (pool->places)
        sp_places_pin(pool->places, self->node);
    /* from now on other threads may set this thread's affinity mask */
    atomic_store(&self->tid, sp_thread_id());
    uint32_t seen = 0;
    int patient = 0;
    for (;;) {
        if (join_job(pool)) {
            leave_owners_core(self);
            draw(pool, self->node);
            leave_job(pool);
        }
        uint32_t now = atomic_load(&pool->sequence);
        if (now != seen) {
            seen = now; /* a new job was published, so try to join it before sleeping */
            continue;
        }
        if (atomic_load(&pool->stop))
            return NULL;
        await_job(pool, seen, &patient);
    }
}

void sp_signals_to_block(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigfillset(set); /* signals are handled by the interpreter's threads */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(set, own[i]);
}

/* Starts the workers when the first job needs them. May start fewer than requested. */
static void start_workers(struct sp_pool *pool)
{
    sigset_t all, old;
    sp_signals_to_block(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    while (pool->started < pool->threads - 1) {
        struct sp_worker *const next = &pool->workers[pool->started];
        next->pool = pool;
        /* thread 0 is the caller of sp_pool_run, so the first worker is thread 1 */
        next->node = pool->places ? pool->places->node_of_thread[pool->started + 1] : 0;
        if (pthread_create(&next->thread, NULL, worker, next))
            break;
        pthread_setname_np(next->thread, "sparkle-pool");
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Moves workers off the core of the job's owner (the caller of sp_pool_run). A worker that does not
 * join the job is usually queued on that core. */
static void look_after_workers(struct sp_pool *pool)
{
    for (uint32_t i = 0; i < pool->started && i < MOST_LATE; i++)
        sp_move_off_core(atomic_load(&pool->workers[i].tid), atomic_load_explicit(&pool->owner_cpu, memory_order_relaxed));
    pool->alone_ns = 0;
}

static void await_helpers(struct sp_pool *pool, uint64_t begun)
{
    uint32_t door = atomic_fetch_and(&pool->door, ~(uint32_t)DOOR_TICKETS);
    pool->alone_ns = door & DOOR_TICKETS ? pool->alone_ns + (sp_clock_ns() - begun) : 0;
    if (door < DOOR_INSIDE)
        return;
    struct sp_spin spin = sp_spin_begin(may_spin_ns(pool));
    int spinning = spin.until != spin.seen;
    while (atomic_load_explicit(&pool->door, memory_order_acquire) >= DOOR_INSIDE) {
        if (spinning) {
            sp_cpu_relax();
            spinning = sp_spin_on(&spin);
            continue;
        }
        atomic_store(&pool->owner_sleeps, 1);
        door = atomic_load(&pool->door);
        if (door >= DOOR_INSIDE)
            sp_futex_wait(&pool->door, door, 100000000u);
        atomic_store(&pool->owner_sleeps, 0);
    }
}

static void run_alone(sp_task_fn *task, void *ctx, uint32_t tasks)
{
    for (uint32_t i = 0; i < tasks; i++)
        task(ctx, i);
}

/* Divides the tasks among the NUMA nodes. Each node gets consecutive tasks, and their number is
 * proportional to the number of threads on that node. */
static void deal(struct sp_pool *pool, uint32_t tasks)
{
    uint64_t begin = 0;
    for (uint32_t n = 0; n < pool->nshares; n++) {
        const uint64_t end = n + 1 == pool->nshares
                                 ? tasks
                                 : (uint64_t)tasks * pool->places->threads_before[n + 1] / pool->threads;
        pool->shares[n].end = end;
        /* the later store to `door` makes this value visible to the workers */
        atomic_store_explicit(&pool->shares[n].next, begin, memory_order_relaxed);
        begin = end;
    }
}

void sp_pool_run(struct sp_pool *pool, sp_task_fn *task, void *ctx, uint32_t tasks, uint32_t threads)
{
    uint32_t most = pool ? pool->threads : 1;
    if (threads == 0 || threads > most)
        threads = most;
    if (threads > tasks)
        threads = tasks;
    uint32_t idle = 0;
    if (threads <= 1 || !atomic_compare_exchange_strong(&pool->busy, &idle, 1)) {
        run_alone(task, ctx, tasks);
        return;
    }
    if (pool->started < pool->threads - 1)
        start_workers(pool);
    wake_count(pool, (int32_t)threads);
    pool->task = task;
    pool->ctx = ctx;
    deal(pool, tasks);
    const uint64_t begun = sp_clock_ns();
    atomic_store_explicit(&pool->owner_cpu, sp_core_now(), memory_order_relaxed);
    atomic_store(&pool->door, threads - 1);
    atomic_fetch_add(&pool->sequence, 1);
    if (atomic_load(&pool->sleepers))
        sp_futex_wake(&pool->sequence, (int)threads - 1);
    if (pool->alone_ns > LATE_NS && pool->threads <= (uint32_t)sp_cores())
        look_after_workers(pool);
    draw(pool, pool->places ? sp_places_here(pool->places) : 0);
    await_helpers(pool, begun);
    wake_count(pool, -(int32_t)threads);
    atomic_store(&pool->busy, 0);
}

uint32_t sp_pool_threads(const struct sp_pool *pool)
{
    return pool ? pool->threads : 1;
}

uint32_t sp_pool_worth(const struct sp_pool *pool, uint32_t most, double work_ns)
{
    const uint32_t all = sp_pool_threads(pool);
    const uint32_t allowed = most && most < all ? most : all;
    const double worth = work_ns / HANDED_NS;
    return worth < 2 ? 1 : worth < allowed ? (uint32_t)worth : allowed;
}

uint32_t sp_pool_ready(struct sp_pool *pool, uint32_t threads, double work_ns)
{
    if (threads <= 1 || work_ns >= WOKEN_NS || atomic_load_explicit(&pool->sleepers, memory_order_relaxed) < pool->threads - 1)
        return threads;
    const uint64_t now = sp_clock_ns();
    return now - atomic_exchange_explicit(&pool->asked_ns, now, memory_order_relaxed) < PATIENT_NS ? threads : 1;
}

int sp_pool_init(struct sp_pool *pool, uint32_t threads)
{
    pool->threads = threads;
    pool->nshares = 1;
    pool->shares = aligned_alloc(_Alignof(struct sp_share), sizeof *pool->shares);
    pool->workers = calloc(threads, sizeof *pool->workers);
    if (pool->shares && pool->workers)
        return 0;
    free(pool->shares);
    free(pool->workers);
    return -ENOMEM;
}

int sp_pool_place(struct sp_pool *pool, struct sp_places *places)
{
    if (pool->started || pool->places || places->threads != pool->threads)
        return -EINVAL;
    struct sp_share *const shares = aligned_alloc(_Alignof(struct sp_share), places->nodes * sizeof *shares);
    if (!shares)
        return -ENOMEM;
    free(pool->shares);
    pool->shares = shares;
    pool->nshares = places->nodes;
    pool->places = places;
    return 0;
}

void sp_pool_stop(struct sp_pool *pool)
{
    atomic_store(&pool->stop, 1);
    atomic_fetch_add(&pool->sequence, 1);
    sp_futex_wake(&pool->sequence, INT32_MAX);
    for (uint32_t i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    free(pool->workers);
    pool->workers = NULL;
    free(pool->shares);
    sp_places_free(pool->places);
}
