/* The thread pool of one cpu device; kernels use it through kernel.h. */
#ifndef SP_CPU_POOL_H
#define SP_CPU_POOL_H
#include "kernel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct sp_places; /* numa.h: the NUMA nodes of the threads; NULL: the kernel places threads freely */

struct sp_worker {
    struct sp_pool *pool;
    pthread_t thread;
    uint32_t node;
    _Atomic int32_t tid; /* 0: the thread has not started */
};

/* A run of tasks that one node's threads draw from first. They get memory that they touched first
 * again in the next job, if that is divided alike. One node: one share. */
struct sp_share {
    _Alignas(64) _Atomic uint64_t next; /* wider than a task's number: every thread draws once past the end */
    uint64_t end;
};

struct sp_pool {
    uint32_t threads; /* the calling thread included */
    uint32_t started;
    _Atomic uint32_t busy;     /* an owner runs the job below */
    _Atomic uint32_t sequence; /* futex: incremented when a job is published */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    /* Low half: helpers that may still join the job. High half: helpers inside it. One word, so
     * that the owner can close the door and read the number inside in one step. Also the futex on
     * which the owner sleeps. */
    _Atomic uint32_t door;
    _Atomic uint32_t owner_sleeps;
    _Atomic int32_t awake;     /* threads of this pool that run a job or spin */
    _Atomic uint64_t asked_ns; /* time of the last job that was too small to wake workers */
    _Atomic int32_t owner_cpu; /* core on which the owner began the job */
    /* recent time in which owners worked alone, although they had asked for helpers */
    uint64_t alone_ns;
    sp_task_fn *task;
    void *ctx;
    uint32_t nshares;
    struct sp_share *shares;
    struct sp_places *places;
    struct sp_worker *workers;
};

int sp_pool_init(struct sp_pool *pool, uint32_t threads);
/* Call it before the first job; the pool owns `places` from then on. */
int sp_pool_place(struct sp_pool *pool, struct sp_places *places);
void sp_pool_stop(struct sp_pool *pool);

/* Signals that worker threads block: all except those of a thread's own faults. Those stay open, so
 * that a crash reporter (Python's faulthandler) can name the thread. */
void sp_signals_to_block(sigset_t *set);
#endif
