/* A thread that stays on its core until sp_move_off_core takes it to another. */
#define _GNU_SOURCE
#include "cpu/runtime/affinity.h"
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* sp_move_off_core once more, with somebody who sets another mask as soon as it has set its own. */
static cpu_set_t somebodys;
static int set_and_interrupted(pid_t tid, size_t nbytes, const cpu_set_t *mask)
{
    static int calls;
    const int rc = sched_setaffinity(tid, nbytes, mask);
    return rc || calls++ ? rc : sched_setaffinity(tid, sizeof somebodys, &somebodys);
}
#define sp_move_off_core apart_interrupted
#define sp_thread_id self_of_apart_interrupted
#define sched_setaffinity set_and_interrupted
#include "cpu/runtime/affinity.c"
#undef sp_move_off_core
#undef sp_thread_id
#undef sched_setaffinity

enum { MOST_S = 20 };

struct busy {
    pthread_t thread;
    _Atomic int tid, cpu, stop;
};

static void *work(void *arg)
{
    struct busy *const busy = arg;
    atomic_store(&busy->tid, (int)sp_thread_id());
    while (!atomic_load(&busy->stop))
        atomic_store(&busy->cpu, sched_getcpu());
    return NULL;
}

/* In time: does it come to be on `cpu`, or, `is` 0, elsewhere? */
static int comes(struct busy *busy, int cpu, int is)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t until = t.tv_sec + MOST_S;
    while ((atomic_load(&busy->cpu) == cpu) != is) {
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &t);
        if (t.tv_sec > until)
            return 0;
    }
    return 1;
}

/* Once: nothing about it is random. */
void check_affinity(void)
{
    static int done;
    if (done++)
        return;
    struct busy busy = {.cpu = -1};
    cpu_set_t all, one, after;
    size_t cpu = 0;
    if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2)
        return;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (pthread_create(&busy.thread, NULL, work, &busy))
        return;
    while (!atomic_load(&busy.tid))
        sched_yield();
    const pid_t tid = atomic_load(&busy.tid);
    sched_setaffinity(tid, sizeof one, &one);
    if (!comes(&busy, (int)cpu, 1))
        fail("not pinned");
    sp_move_off_core(tid, (int)cpu); /* may run nowhere else: nothing happens */
    if (sched_getaffinity(tid, sizeof after, &after) || !CPU_EQUAL(&one, &after))
        fail("another mask than its own");
    sched_setaffinity(tid, sizeof all, &all);
    sp_move_off_core(tid, (int)cpu);
    if (!comes(&busy, (int)cpu, 0))
        fail("still there");
    if (sched_getaffinity(tid, sizeof after, &after) || !CPU_EQUAL(&all, &after))
        fail("another mask than before");
    somebodys = one;
    sched_setaffinity(tid, sizeof all, &all);
    apart_interrupted(tid, (int)cpu);
    if (sched_getaffinity(tid, sizeof after, &after) || !CPU_EQUAL(&one, &after))
        fail("the mask that somebody set meanwhile is lost");
    atomic_store(&busy.stop, 1);
    pthread_join(busy.thread, NULL);
}
