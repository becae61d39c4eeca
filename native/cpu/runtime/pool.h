/* The thread pool of one cpu device; kernels see it through kernel.h. */
#ifndef SP_CPU_POOL_H
#define SP_CPU_POOL_H
#include "kernel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct sp_places; /* numa.h: on which NUMA nodes the threads run; NULL: wherever the kernel puts them */

struct sp_worker {
    struct sp_pool *pool;
    pthread_t thread;
    uint32_t node;
    _Atomic int32_t tid; /* 0: it has not begun */
};

/* A run of tasks that the threads of one node draw from first: memory that they touched first is theirs again in the next
 * job, if that is cut alike. There is one share where there is one node. */
struct sp_share {
    _Alignas(64) _Atomic uint64_t next; /* wider than a task's number: every thread draws once past the end */
    uint64_t end;
};

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
    _Atomic int32_t awake;     /* threads of this pool that run a job or spin */
    _Atomic uint64_t asked_ns; /* when somebody last had work that was too little to wake anybody for */
    _Atomic int32_t owner_cpu; /* where the owner began */
    uint64_t alone_ns;         /* how long owners have worked of late with helpers that did not come */
    sp_task_fn *task;
    void *ctx;
    uint32_t nshares;
    struct sp_share *shares;
    struct sp_places *places;
    struct sp_worker *workers;
};

int sp_pool_init(struct sp_pool *pool, uint32_t threads);
/* Before the first job; the pool owns `places` from then on. */
int sp_pool_place(struct sp_pool *pool, struct sp_places *places);
void sp_pool_stop(struct sp_pool *pool);

/* What worker threads block: everything that is not the thread's own fault. Those stay open, so that a crash reporter
 * (Python's faulthandler) tells which thread it was. */
void sp_signals_to_block(sigset_t *set);
#endif
