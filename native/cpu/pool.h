/* The thread pool of one cpu device; kernels see it through kernel.h. */
#ifndef SP_CPU_POOL_H
#define SP_CPU_POOL_H
#include "kernel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct sp_pool {
    uint32_t threads; /* the caller included */
    uint32_t started;
    _Atomic uint32_t busy;     /* somebody owns the job below */
    _Atomic uint32_t sequence; /* futex: bumped when a job is published */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    /* Low half: helpers that may still join the job; high half: helpers inside it. One word, so that the owner can close
     * the door and see who is still inside in one step. Also the futex on which the owner sleeps. */
    _Atomic uint32_t door;
    _Atomic uint32_t owner_sleeps;
    sp_task_fn *task;
    void *ctx;
    uint32_t tasks;
    _Atomic uint64_t next; /* wider than `tasks`: every thread draws once past the end */
    pthread_t *workers;
};

int sp_pool_init(struct sp_pool *pool, uint32_t threads);
void sp_pool_stop(struct sp_pool *pool);

/* What worker threads block: everything that is not the thread's own fault. Those stay open, so that a crash reporter
 * (Python's faulthandler) tells which thread it was. */
void sp_signals_to_block(sigset_t *set);
#endif
