/* A job that is being encoded: an IB in a slot of the queue's ring. The kernel arguments of the job
 * have a slot of their own, which fills downwards from its end. */
#ifndef SP_AMDGPU_IB_H
#define SP_AMDGPU_IB_H
#include "amdgpu/flight/queue.h"

#include <string.h>

/* A result of the functions that encode a record, besides 0 and -errno: the rest of the record
 * needs another job. */
enum { SP_JOB_FULL = 1 };

struct sp_job {
    struct sp_amdgpu_queue *q;
    struct sp_flight *flight;
    uint32_t *ib;
    uint32_t ndw;
    uint64_t ib_nbytes; /* capacity of the IB */
    uint64_t va;
    unsigned char *args;
    uint64_t args_va;
    /* offset in bytes, in the slot `args`, of the newest kernel arguments. Arguments fill the
     * slot from its end downwards. */
    uint64_t args_at;
    uint64_t slot;    /* index of the slot, for the IB and for the arguments */
    uint32_t wrote;   /* 1 if the job has written arguments into the slot */
    int dirty;        /* 1 if the next packet must see an earlier write of the job */
    int copying;      /* 1 if the job has a DMA_DATA for which no later packet has waited yet */
    int copies_only;  /* 1 if the job is for the copy ring (SDMA) */
    int clocks; /* 1 if the job stores the GPU's clock, so that its IB serves one submission only */
    /* Threads, and bytes copied, of the job so far. Limits of these numbers keep the job's duration
     * far below the kernel driver's time limit. */
    uint64_t threads, copied;
    uint32_t ndispatches;
    /* the kernel whose speed this job measures, and its number of threads; `kernel` is NULL if this
     * job measures none */
    struct sp_measured measured;
    uint32_t nwaits; /* number of this job's waits, which are in `request.waits` of the queue */
    /* the chunk of a link (flight/link.h) that this job reads or writes, and therefore names in its
     * BO list; NULL if there is none */
    const struct sp_amdgpu_memory *shared;
};

/* The most dwords that the end of an IB takes: a wait for copies, two stores of the clock, the
 * packets that wait until the GPU is idle (`idle` of the device's setup), and padding. */
enum { SP_TAIL_NDW = 7 + 16 + SP_AMDGPU_PACKETS / 2 + 8 };

/* Returns 1 if a packet of `ndw` dwords, its arguments, and the end of the IB fit into the job. */
static inline int sp_job_fits(const struct sp_job *job, uint32_t ndw, uint64_t args_nbytes)
{
    return ((uint64_t)job->ndw + ndw + SP_TAIL_NDW) * 4 <= job->ib_nbytes && args_nbytes + 256 <= job->args_at;
}

/* Appends `ndw` zeroed dwords for a packet to the IB, and returns their address. */
static inline uint32_t *sp_job_put(struct sp_job *job, uint32_t ndw)
{
    uint32_t *to = job->ib + job->ndw;
    memset(to, 0, ndw * sizeof *to);
    job->ndw += ndw;
    return to;
}

/* Allocates zeroed bytes for kernel arguments of the job, below those that were allocated
 * before, and returns their CPU address. `va` receives their GPU address. */
static inline void *sp_job_args(struct sp_job *job, uint64_t nbytes, uint64_t align, uint64_t *va)
{
    job->args_at = (job->args_at - nbytes) & ~(align - 1);
    *va = job->args_va + job->args_at;
    job->wrote = 1;
    return memset(job->args + job->args_at, 0, nbytes);
}
#endif
