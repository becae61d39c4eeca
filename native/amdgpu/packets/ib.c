/* The words of an IB: packets from its beginning, arguments from its slot's end. */
#include "ib.h"
#include "gen/pm4_packets.h"

#include <string.h>

/* What ends an IB: waiting for copies, two clocks, idle packets, padding. */
enum { TAIL_NDW = 7 + 16 + SP_AMDGPU_PACKETS / 2 + 8 };

int sp_job_fits(const struct sp_job *job, uint32_t ndw, uint64_t args_nbytes)
{
    return ((uint64_t)job->ndw + ndw + TAIL_NDW) * 4 + args_nbytes + 256 <= job->args_at;
}

uint32_t *sp_job_put(struct sp_job *job, uint32_t ndw)
{
    uint32_t *to = job->ib + job->ndw;
    memset(to, 0, ndw * sizeof *to);
    job->ndw += ndw;
    return to;
}

void *sp_job_args(struct sp_job *job, uint64_t nbytes, uint64_t align, uint64_t *va)
{
    job->args_at = (job->args_at - nbytes) & ~(align - 1);
    *va = job->va + job->args_at;
    void *to = (char *)job->ib + job->args_at;
    memset(to, 0, nbytes);
    return to;
}
