/* A job: an IB that is being written, in a slot of the queue's ring; arguments grow from the slot's end. */
#ifndef SP_AMDGPU_IB_H
#define SP_AMDGPU_IB_H
#include "amdgpu/flight/queue.h"

enum { SP_JOB_FULL = 1 }; /* beside 0 and -errno: the rest goes into another job */

struct sp_job {
    struct sp_amdgpu_queue *q;
    struct sp_flight *flight;
    uint32_t *ib;
    uint32_t ndw;
    uint64_t args_at; /* bytes from the slot's beginning */
    uint64_t va;
    int dirty;        /* something ran that the next must see */
    int copying;      /* a DMA_DATA that nobody waited for */
    int copies_only;  /* it is for the ring for copies */
    int clocks;       /* it stores the GPU's clock where only this submission may */
    uint64_t threads, copied; /* so far: a job must stay far below the kernel's limit of time */
    uint32_t ndispatches;
    struct sp_measured measured; /* all that is in it, if it is measured */
    uint32_t nwaits; /* in the queue's request */
};

int sp_job_fits(const struct sp_job *job, uint32_t ndw, uint64_t args_nbytes);
/* Zeroed dwords, for a packet. */
uint32_t *sp_job_put(struct sp_job *job, uint32_t ndw);
void *sp_job_args(struct sp_job *job, uint64_t nbytes, uint64_t align, uint64_t *va);
#endif
