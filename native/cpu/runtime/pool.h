/* The thread pool of one cpu device. Kernels use it through kernel.h. */
#ifndef SP_CPU_POOL_H
#define SP_CPU_POOL_H
#include "kernel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct sp_places; /* the NUMA nodes of the threads (numa.h) */

struct sp_worker {
    struct sp_pool *pool;
    pthread_t thread;
    uint32_t node;
    _Atomic int32_t tid; /* thread id; 0: the thread has not started */
};

/* A contiguous run of a job's tasks, from which the threads of one NUMA node take tasks before they
 * help other nodes. If the next job is divided in the same way, these threads work on the same
 * memory again. There is one share per node. */
struct sp_share {
    /* Index of the first task that no thread has taken yet. A thread takes a task by adding 1. A
     * thread that finds no task left has added 1 too. The number has 64 bits, so that these
     * additions never wrap around. */
    _Alignas(64) _Atomic uint64_t next;
    uint64_t end;
};

struct sp_pool {
    uint32_t threads; /* number of threads, the caller of sp_pool_run included */
    uint32_t started;
    _Atomic uint32_t busy;     /* 1: an owner (a caller of sp_pool_run) runs the job below */
    _Atomic uint32_t sequence; /* futex, incremented when a job is published */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    /* Low half: number of workers that may still join the job. High half: number of workers that
     * have joined and not left. Both numbers are in one word, so that the job's owner (the caller
     * of sp_pool_run) can stop further joins and read the high half in one step. The owner also
     * sleeps on this word as a futex. */
    _Atomic uint32_t door;
    _Atomic uint32_t owner_sleeps;
    _Atomic int32_t awake;     /* threads of this pool that run a job or spin */
    _Atomic uint64_t asked_ns; /* time of the last job that was too small to wake workers */
    _Atomic int32_t owner_cpu; /* core on which the caller of sp_pool_run began the job */
    /* Total time in ns of the latest consecutive jobs that too few workers joined: fewer than the
     * caller of sp_pool_run requested. A job that all requested workers join sets this to 0. */
    uint64_t alone_ns;
    sp_task_fn *task;
    void *ctx;
    uint32_t nshares;
    struct sp_share *shares;
    struct sp_places *places;
    struct sp_worker *workers;
};

int sp_pool_init(struct sp_pool *pool, uint32_t threads);
/* Divides the pool's threads among NUMA nodes. To be called before the first job. The pool owns
 * `places` from then on. Returns 0 or -errno. */
int sp_pool_place(struct sp_pool *pool, struct sp_places *places);
void sp_pool_stop(struct sp_pool *pool);

/* Sets the signals that worker threads block: all except those that a fault of the thread itself
 * raises (such as SIGSEGV). Threads receive these, so that a crash reporter (Python's faulthandler)
 * can name the thread. */
void sp_signals_to_block(sigset_t *set);
#endif
