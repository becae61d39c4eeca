/* Writes the packets of the copy ring (SDMA). Copies of one IB may overtake each other. Any other
 * packet orders the copies before and after it (RADV uses a NOP). The end of an IB orders them
 * too. */
#include "sdma.h"
#include "gen/sdma_packets.h"

enum { IB_ALIGN_NDW = 16 /* Mesa pads IBs of SDMA to this multiple */, FILL_DWORDS = 2 };

static uint32_t *packet(struct sp_job *job, uint32_t op, uint32_t ndw)
{
    uint32_t *p = sp_job_put(job, ndw);
    sp_put(p, SDMA_NOP_HEADER_OP, op);
    return p;
}

void sp_sdma_copy(struct sp_job *job, uint64_t dst, uint64_t src, uint64_t nbytes)
{
    uint32_t *p = packet(job, SDMA_COPY_LINEAR, SDMA_COPY_LINEAR_NDW);
    sp_put(p, SDMA_COPY_LINEAR_COUNT_BYTES, (uint32_t)nbytes);
    sp_put64(p, SDMA_COPY_LINEAR_SRC, src);
    sp_put64(p, SDMA_COPY_LINEAR_DST, dst);
}

void sp_sdma_fill(struct sp_job *job, uint64_t dst, uint32_t value, uint64_t nbytes)
{
    uint32_t *p = packet(job, SDMA_CONST_FILL, SDMA_CONST_FILL_NDW);
    sp_put(p, SDMA_CONST_FILL_HEADER_FILLSIZE, FILL_DWORDS);
    sp_put64(p, SDMA_CONST_FILL_ADDR, dst);
    sp_put(p, SDMA_CONST_FILL_VALUE, value);
    sp_put(p, SDMA_CONST_FILL_COUNT_BYTES, (uint32_t)nbytes);
}

void sp_sdma_order(struct sp_job *job)
{
    if (job->dirty)
        packet(job, SDMA_NOP, SDMA_NOP_NDW);
    job->dirty = 0;
}

void sp_sdma_end(struct sp_job *job)
{
    while (job->ndw % IB_ALIGN_NDW)
        packet(job, SDMA_NOP, SDMA_NOP_NDW);
}
