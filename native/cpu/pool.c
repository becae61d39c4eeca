/* A pool that runs one job at a time: the owner publishes it, sleeping or spinning workers join through `door`, everybody
 * draws task numbers from one counter. A second owner does its job alone rather than wait. */
#define _GNU_SOURCE
#include "pool.h"

#include "../core/timeline.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum { DOOR_INSIDE = 0x10000, DOOR_TICKETS = 0xffff };

static void draw(struct sp_pool *pool)
{
    uint32_t tasks = pool->tasks;
    for (;;) {
        uint64_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (i >= tasks)
            return;
        pool->task(pool->ctx, (uint32_t)i);
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

static void await_job(struct sp_pool *pool, uint32_t seen)
{
    uint64_t until = sp_spin_ns();
    if (until) {
        until += sp_clock_ns();
        do {
            for (int i = 0; i < 64; i++) {
                if (atomic_load_explicit(&pool->sequence, memory_order_acquire) != seen)
                    return;
                sp_cpu_relax();
            }
        } while (sp_clock_ns() < until);
    }
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->sequence) == seen)
        sp_futex_wait(&pool->sequence, seen, 1000000000u);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void *worker(void *arg)
{
    struct sp_pool *pool = arg;
    uint32_t seen = 0;
    for (;;) {
        if (join_job(pool)) {
            draw(pool);
            leave_job(pool);
        }
        uint32_t now = atomic_load(&pool->sequence);
        if (now != seen) {
            seen = now; /* a job was published since: look at the door again before sleeping */
            continue;
        }
        if (atomic_load(&pool->stop))
            return NULL;
        await_job(pool, seen);
    }
}

void sp_signals_to_block(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigfillset(set); /* the rest belongs to the interpreter's threads */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(set, own[i]);
}

/* Workers are started by the first job that wants them; fewer than asked for is fine. */
static void start_workers(struct sp_pool *pool)
{
    sigset_t all, old;
    sp_signals_to_block(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    while (pool->started < pool->threads - 1) {
        if (pthread_create(&pool->workers[pool->started], NULL, worker, pool))
            break;
        pthread_setname_np(pool->workers[pool->started], "sparkle-pool");
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void await_helpers(struct sp_pool *pool)
{
    atomic_fetch_and(&pool->door, ~(uint32_t)DOOR_TICKETS);
    uint64_t spin = sp_spin_ns();
    uint64_t until = spin ? sp_clock_ns() + spin : 0;
    while (atomic_load_explicit(&pool->door, memory_order_acquire) >= DOOR_INSIDE) {
        if (until && sp_clock_ns() < until) {
            sp_cpu_relax();
            continue;
        }
        atomic_store(&pool->owner_sleeps, 1);
        uint32_t door = atomic_load(&pool->door);
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
    pool->task = task;
    pool->ctx = ctx;
    pool->tasks = tasks;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->door, threads - 1);
    atomic_fetch_add(&pool->sequence, 1);
    if (atomic_load(&pool->sleepers))
        sp_futex_wake(&pool->sequence, (int)threads - 1);
    draw(pool);
    await_helpers(pool);
    atomic_store(&pool->busy, 0);
}

uint32_t sp_pool_threads(const struct sp_pool *pool)
{
    return pool ? pool->threads : 1;
}

int sp_pool_init(struct sp_pool *pool, uint32_t threads)
{
    pool->threads = threads;
    pool->workers = calloc(threads, sizeof *pool->workers);
    return pool->workers ? 0 : -ENOMEM;
}

void sp_pool_stop(struct sp_pool *pool)
{
    atomic_store(&pool->stop, 1);
    atomic_fetch_add(&pool->sequence, 1);
    sp_futex_wake(&pool->sequence, INT32_MAX);
    for (uint32_t i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i], NULL);
    free(pool->workers);
    pool->workers = NULL;
}
