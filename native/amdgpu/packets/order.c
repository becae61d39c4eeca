/* Orders the packets of a job: a packet waits for the earlier packets and sees their writes.
 *
 * At the start of an IB the waves' data caches (scalar, vector L0, GL1) are empty; submit/job.c
 * handles the other caches. At the end of an IB the GPU is idle. */
#include "order.h"
#include "gen/pm4_packets.h"
#include "sdma.h"

#include <string.h>

enum { IB_ALIGN_NDW = 8, IDLE_AT = 64 };

static void put_packets(struct sp_job *job, const struct sp_amdgpu_packets *p)
{
    uint32_t *to = sp_job_put(job, p->ndw);
    memcpy(to, p->dwords, p->ndw * sizeof *to);
    if (!p->va_at[0])
        return;
    job->q->idles++;
    for (int i = 0; i < 2; i++) {
        uint64_t va = job->q->fence->va + IDLE_AT;
        to[p->va_at[i]] = (uint32_t)va;
        to[p->va_at[i] + 1] = (uint32_t)(va >> 32);
        to[p->value_at[i]] = job->q->idles;
    }
}

void sp_job_start(struct sp_job *job)
{
    if (!job->copies_only)
        put_packets(job, &job->q->dev->setup.begin);
}

/* Appends a DMA_DATA packet of no bytes that waits for earlier copies, as in captures of RADV. */
static void wait_for_copies(struct sp_job *job)
{
    if (!job->copying)
        return;
    uint32_t *p = sp_job_put(job, PM4_DMA_DATA_NDW);
    sp_put(p, PM4_HEADER_TYPE, 3);
    sp_put(p, PM4_HEADER_OPCODE, PM4_DMA_DATA);
    sp_put(p, PM4_HEADER_COUNT, PM4_DMA_DATA_NDW - 2);
    sp_put(p, PM4_DMA_DATA_CONTROL_DST_SEL, 2);
    sp_put(p, PM4_DMA_DATA_CONTROL_CP_SYNC, 1);
    job->copying = 0;
}

void sp_job_order(struct sp_job *job)
{
    if (job->copies_only) {
        sp_sdma_order(job);
        return;
    }
    wait_for_copies(job);
    if (job->dirty)
        put_packets(job, &job->q->dev->setup.between);
    job->dirty = 0;
}

void sp_job_end(struct sp_job *job)
{
    if (job->copies_only) {
        sp_sdma_end(job);
    } else {
        wait_for_copies(job);
        put_packets(job, &job->q->dev->setup.idle);
        while (job->ndw % IB_ALIGN_NDW)
            *sp_job_put(job, 1) = job->q->dev->setup.pad;
    }
    /* the CPU's writes are visible before the ioctl; on x86 this also flushes the write-combining
     * buffers */
    atomic_thread_fence(memory_order_seq_cst);
}
