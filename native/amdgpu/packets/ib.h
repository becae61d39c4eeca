/* A job: an IB that is being written, in a slot of the queue's ring, and its arguments, which grow from the end of theirs. */
#ifndef SP_AMDGPU_IB_H
#define SP_AMDGPU_IB_H
#include "amdgpu/flight/queue.h"

#include <string.h>

enum { SP_JOB_FULL = 1 }; /* beside 0 and -errno: the rest goes into another job */

struct sp_job {
    struct sp_amdgpu_queue *q;
    struct sp_flight *flight;
    uint32_t *ib;
    uint32_t ndw;
    uint64_t ib_nbytes; /* there is room for */
    uint64_t va;
    unsigned char *args;
    uint64_t args_va;
    uint64_t args_at; /* bytes from their beginning */
    uint64_t slot;    /* of both */
    uint32_t wrote;   /* arguments stand there that did not before */
    int dirty;        /* something ran that the next must see */
    int copying;      /* a DMA_DATA that nobody waited for */
    int copies_only;  /* it is for the ring for copies */
    int clocks;       /* it stores the GPU's clock where only this submission may */
    uint64_t threads, copied; /* so far: a job must stay far below the kernel's limit of time */
    uint32_t ndispatches;
    struct sp_measured measured; /* all that is in it, if it is measured */
    uint32_t nwaits; /* in the queue's request */
    const struct sp_amdgpu_memory *shared; /* named by this job beside what all name; or NULL */
};

/* What ends an IB: waiting for copies, two clocks, idle packets, padding. */
enum { SP_TAIL_NDW = 7 + 16 + SP_AMDGPU_PACKETS / 2 + 8 };

/* Is there room for a packet, its arguments, and what ends the IB? */
static inline int sp_job_fits(const struct sp_job *job, uint32_t ndw, uint64_t args_nbytes)
{
    return ((uint64_t)job->ndw + ndw + SP_TAIL_NDW) * 4 <= job->ib_nbytes && args_nbytes + 256 <= job->args_at;
}

/* Zeroed dwords, for a packet. */
static inline uint32_t *sp_job_put(struct sp_job *job, uint32_t ndw)
{
    uint32_t *to = job->ib + job->ndw;
    memset(to, 0, ndw * sizeof *to);
    job->ndw += ndw;
    return to;
}

/* Zeroed bytes below the arguments so far, and where the GPU sees them. */
static inline void *sp_job_args(struct sp_job *job, uint64_t nbytes, uint64_t align, uint64_t *va)
{
    job->args_at = (job->args_at - nbytes) & ~(align - 1);
    *va = job->args_va + job->args_at;
    job->wrote = 1;
    return memset(job->args + job->args_at, 0, nbytes);
}
#endif
