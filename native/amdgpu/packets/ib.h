/* A job: an IB that is being written in a slot of the queue's ring. Its arguments are allocated
 * downwards from the end of theirs. */
#ifndef SP_AMDGPU_IB_H
#define SP_AMDGPU_IB_H
#include "amdgpu/flight/queue.h"

#include <string.h>

enum { SP_JOB_FULL = 1 }; /* besides 0 and -errno: the rest goes into another job */

struct sp_job {
    struct sp_amdgpu_queue *q;
    struct sp_flight *flight;
    uint32_t *ib;
    uint32_t ndw;
    uint64_t ib_nbytes; /* capacity of the IB */
    uint64_t va;
    unsigned char *args;
    uint64_t args_va;
    uint64_t args_at; /* bytes from the beginning of the slot's arguments */
    uint64_t slot;    /* of IB and arguments */
    uint32_t wrote;   /* it has written arguments into the slot */
    int dirty;        /* a write that the next packet must see */
    int copying;      /* a DMA_DATA that no packet has waited for */
    int copies_only;  /* the job is for the copy ring */
    int clocks;       /* the job stores the GPU's clock for this submission only */
    uint64_t threads, copied; /* so far; a job must stay far below the kernel's time limit */
    uint32_t ndispatches;
    struct sp_measured measured; /* the kernel and threads of a measured job */
    uint32_t nwaits; /* in the queue's request */
    /* listed by this job, besides what all jobs list; or NULL */
    const struct sp_amdgpu_memory *shared;
};

/* Size of the end of an IB: a wait for copies, two clocks, idle packets, padding. */
enum { SP_TAIL_NDW = 7 + 16 + SP_AMDGPU_PACKETS / 2 + 8 };

/* 1 if a packet, its arguments, and the end of the IB fit. */
static inline int sp_job_fits(const struct sp_job *job, uint32_t ndw, uint64_t args_nbytes)
{
    return ((uint64_t)job->ndw + ndw + SP_TAIL_NDW) * 4 <= job->ib_nbytes && args_nbytes + 256 <= job->args_at;
}

/* Appends zeroed dwords for a packet. */
static inline uint32_t *sp_job_put(struct sp_job *job, uint32_t ndw)
{
    uint32_t *to = job->ib + job->ndw;
    memset(to, 0, ndw * sizeof *to);
    job->ndw += ndw;
    return to;
}

/* Allocates zeroed bytes below the arguments so far; `va` receives their GPU address. */
static inline void *sp_job_args(struct sp_job *job, uint64_t nbytes, uint64_t align, uint64_t *va)
{
    job->args_at = (job->args_at - nbytes) & ~(align - 1);
    *va = job->args_va + job->args_at;
    job->wrote = 1;
    return memset(job->args + job->args_at, 0, nbytes);
}
#endif
