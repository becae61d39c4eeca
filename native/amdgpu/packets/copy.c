/* Encodes copies and fills. DMA_DATA works through L2, so that shaders see the result. A job for
 * the copy ring (SDMA) uses the packets of that ring. */
#include "copy.h"
#include "gen/pm4_packets.h"
#include "order.h"
#include "sdma.h"

#include <string.h>

enum { DATA = 2, L2 = 3 };
/* The first three constants are the most bytes that one packet moves. DMA_DATA has 26 bits for
 * its byte count. From gfx11 on, Mesa uses at most 32767 bytes, rounded down to a multiple of 32
 * (docs/AMDGPU_FACTS.md 3.3). At that size, the packets that fit into one IB move some 27 MiB.
 * For SDMA, 4 MiB - 256 is valid for copies and fills of every generation. JOB_NBYTES is the
 * most bytes that one job moves. It keeps a job far below a second on any card. */
static const uint64_t PACKET_NBYTES = (1 << 26) - 64, PACKET_NBYTES_GFX11 = 32736, SDMA_NBYTES = (4 << 20) - 256,
                      JOB_NBYTES = UINT64_C(1) << 30;

static uint64_t most(const struct sp_job *job)
{
    return job->copies_only ? SDMA_NBYTES : job->q->dev->setup.gfx >= 11 ? PACKET_NBYTES_GFX11 : PACKET_NBYTES;
}

int sp_copy_overlaps(const struct sp_cmd_copy *c)
{
    return c->dst != c->src && c->dst < c->src + c->count && c->src < c->dst + c->count;
}

static int dma(struct sp_job *job, uint32_t src_sel, uint64_t src, uint64_t dst, uint64_t nbytes)
{
    if (!sp_job_fits(job, PM4_DMA_DATA_NDW, 0) || job->copied + nbytes > JOB_NBYTES)
        return SP_JOB_FULL;
    job->copied += nbytes;
    job->dirty = 1;
    if (job->copies_only) {
        if (src_sel == DATA)
            sp_sdma_fill(job, dst, (uint32_t)src, nbytes);
        else
            sp_sdma_copy(job, dst, src, nbytes);
        return 0;
    }
    /* Only the first DMA_DATA packet of a copy waits for earlier DMA writes (RAW_WAIT): the
     * packets of one copy may run in any order. Packets of packets/order.c make each record wait
     * for the record before. */
    const uint32_t waits = src_sel == L2 && !job->copying;
    job->copying = 1;
    uint32_t *p = sp_job_put(job, PM4_DMA_DATA_NDW);
    sp_put(p, PM4_HEADER_TYPE, 3);
    sp_put(p, PM4_HEADER_OPCODE, PM4_DMA_DATA);
    sp_put(p, PM4_HEADER_COUNT, PM4_DMA_DATA_NDW - 2);
    sp_put(p, PM4_DMA_DATA_CONTROL_SRC_SEL, src_sel);
    sp_put(p, PM4_DMA_DATA_CONTROL_DST_SEL, L2);
    sp_put64(p, PM4_DMA_DATA_SRC, src);
    sp_put64(p, PM4_DMA_DATA_DST, dst);
    sp_put(p, PM4_DMA_DATA_COMMAND_BYTE_COUNT, (uint32_t)nbytes);
    sp_put(p, PM4_DMA_DATA_COMMAND_RAW_WAIT, waits);
    return 0;
}

/* Encodes the rest of a copy, from the cursor (struct sp_cursor) on. `first` is the value that
 * the cursor's `moved` had when this copy began. */
static int move(struct sp_job *job, uint64_t dst, uint64_t src, uint64_t nbytes, uint64_t first)
{
    uint64_t *moved = &job->flight->cursor.moved;
    while (*moved - first < nbytes) {
        uint64_t done = *moved - first, n = nbytes - done < most(job) ? nbytes - done : most(job);
        int rc = dma(job, L2, src + done, dst + done, n);
        if (rc)
            return rc;
        *moved += n;
    }
    return 0;
}

static int move_by_bounce(struct sp_job *job, uint64_t dst, uint64_t src, uint64_t nbytes)
{
    uint64_t between = job->flight->bounce->va;
    int rc = job->flight->cursor.moved < nbytes ? move(job, between, src, nbytes, 0) : 0;
    if (rc)
        return rc;
    if (job->flight->cursor.moved == nbytes)
        sp_job_order(job);
    return move(job, dst, between, nbytes, nbytes);
}

int sp_encode_copy(struct sp_job *job, uint64_t dst, uint64_t src, uint64_t nbytes)
{
    const struct sp_cmd_copy c = {.dst = dst, .src = src, .count = nbytes};
    if (dst == src || nbytes == 0)
        return 0;
    int rc = sp_copy_overlaps(&c) ? move_by_bounce(job, dst, src, nbytes) : move(job, dst, src, nbytes, 0);
    if (rc == 0)
        job->flight->cursor.moved = 0;
    return rc;
}

/* Encodes a fill. The fill packet writes whole dwords. The up to three bytes before and after them
 * are copied from a pattern next to the IB. If the fill needs a second job, that job may copy these
 * bytes again, which does no harm. */
int sp_encode_fill(struct sp_job *job, const struct sp_cmd_fill *f)
{
    unsigned char bytes[8];
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(f->pattern >> 8 * (i % f->pattern_nbytes));
    uint64_t head = -f->dst % 4, left = f->count;
    head = head < left ? head : left;
    uint64_t tail = (left - head) % 4, middle = left - head - tail;
    uint32_t rotated;
    memcpy(&rotated, bytes + head % f->pattern_nbytes, sizeof rotated);
    uint64_t *moved = &job->flight->cursor.moved;
    if (*moved == 0 && (head || tail)) {
        uint64_t va;
        if (!sp_job_fits(job, 2 * PM4_DMA_DATA_NDW, 64))
            return SP_JOB_FULL;
        memcpy(sp_job_args(job, sizeof bytes, 64, &va), bytes, sizeof bytes);
        int rc = head ? dma(job, L2, va, f->dst, head) : 0;
        if (rc == 0 && tail)
            rc = dma(job, L2, va + head % f->pattern_nbytes, f->dst + head + middle, tail);
        if (rc)
            return rc;
    }
    while (*moved < middle) {
        uint64_t n = middle - *moved < most(job) ? middle - *moved : most(job);
        int rc = dma(job, DATA, rotated, f->dst + head + *moved, n);
        if (rc)
            return rc;
        *moved += n;
    }
    *moved = 0;
    return 0;
}
