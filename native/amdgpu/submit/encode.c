/* Encodes command records as packets. Records run in order: each record waits for the one before
 * and sees its writes. */
#include "encode.h"
#include "amdgpu/packets/clock.h"
#include "amdgpu/packets/copy.h"
#include "amdgpu/packets/length.h"
#include "amdgpu/packets/order.h"
#include "gen/pm4_packets.h"
#include "gen/regs.h"

#include <errno.h>
#include <string.h>

enum { LDS_GRANULE = 512, MEASURE_NDW = PM4_COPY_DATA_NDW, ORDER_NDW = 7 + SP_AMDGPU_PACKETS / 2 };

static void put_number(unsigned char *args, const struct sp_amdgpu_hidden *h, uint64_t value)
{
    memcpy(args + h->offset, &value, h->nbytes); /* little-endian: the low bytes come first */
}

static uint32_t dimensions(const struct sp_cmd_dispatch *d)
{
    uint32_t n = 1;
    for (uint32_t i = 1; i < 3; i++)
        if ((uint64_t)d->groups[i] * d->group_size[i] > 1)
            n = i + 1;
    return n;
}

static void put_hidden(unsigned char *args, const struct sp_amdgpu_template *t, const struct sp_cmd_dispatch *d)
{
    for (uint32_t i = 0; i < t->nhidden; i++) {
        const struct sp_amdgpu_hidden *h = &t->hidden[i];
        switch (h->kind) {
        case SP_AMDGPU_BLOCK_COUNT_X:
        case SP_AMDGPU_BLOCK_COUNT_Y:
        case SP_AMDGPU_BLOCK_COUNT_Z: put_number(args, h, d->groups[h->kind - SP_AMDGPU_BLOCK_COUNT_X]); break;
        case SP_AMDGPU_GROUP_SIZE_X:
        case SP_AMDGPU_GROUP_SIZE_Y:
        case SP_AMDGPU_GROUP_SIZE_Z: put_number(args, h, d->group_size[h->kind - SP_AMDGPU_GROUP_SIZE_X]); break;
        case SP_AMDGPU_GRID_DIMS: put_number(args, h, dimensions(d)); break;
        case SP_AMDGPU_DYNAMIC_LDS: put_number(args, h, d->shared_nbytes); break;
        default: break; /* all other hidden arguments are always 0 */
        }
    }
    if (t->dynamic_lds_at) {
        uint32_t start = (t->lds_nbytes + t->dynamic_lds_align - 1) / t->dynamic_lds_align * t->dynamic_lds_align;
        memcpy(args + t->dynamic_lds_at - 1, &start, sizeof start);
    }
}

static void put_address(uint32_t *at, uint64_t address)
{
    at[0] = (uint32_t)address;
    at[1] = (uint32_t)(address >> 32);
}

static void put_scratch(uint32_t *p, const struct sp_amdgpu_template *t, const struct sp_amdgpu_queue *q)
{
    uint64_t va = q->scratch->va;
    sp_put(p + t->tmpring_at, COMPUTE_TMPRING_SIZE_WAVES, q->scratch_waves);
    if (t->scratch_base_at)
        put_address(p + t->scratch_base_at, va >> 8);
    if (t->scratch_address_at)
        put_address(p + t->scratch_address_at, va);
    /* the upper 16 bits of the buffer resource's dword 1 are not part of the address */
    if (t->scratch_resource_at) {
        p[t->scratch_resource_at] = (uint32_t)va;
        p[t->scratch_resource_at + 1] |= (uint32_t)(va >> 32) & 0xffff;
    }
}

/* Encodes one piece of a dispatch's grid: along each axis, groups `from` to `end` - 1. */
static void put_piece(struct sp_job *job, const struct sp_cmd_dispatch *d, const uint32_t from[3], const uint32_t end[3])
{
    const struct sp_amdgpu_kernel *k = (const void *)(uintptr_t)d->kernel;
    const struct sp_amdgpu_template *t = &k->t;
    uint64_t va = 0;
    if (t->kernarg_nbytes) {
        unsigned char *args = sp_job_args(job, t->kernarg_nbytes, t->kernarg_align > 64 ? t->kernarg_align : 64, &va);
        for (uint32_t i = 0; i < t->ncopies; i++)
            memcpy(args + t->copies[i].target, (const char *)(d + 1) + t->copies[i].source, t->copies[i].nbytes);
        put_hidden(args, t, d);
    }
    uint32_t *p = sp_job_put(job, t->ndw);
    memcpy(p, t->dwords, t->ndw * sizeof *p);
    uint32_t lds = t->lds_nbytes;
    if (t->dynamic_lds_at)
        lds = (lds + t->dynamic_lds_align - 1) / t->dynamic_lds_align * t->dynamic_lds_align;
    sp_put(p + t->rsrc2_at, COMPUTE_PGM_RSRC2_LDS_SIZE, (lds + d->shared_nbytes + LDS_GRANULE - 1) / LDS_GRANULE);
    if (t->kernarg_at)
        put_address(p + t->kernarg_at, va);
    if (t->scratch_wave_nbytes)
        put_scratch(p, t, job->q);
    for (int i = 0; i < 3; i++) {
        p[t->start_at + (uint32_t)i] = from[i];
        p[t->start_at + 3 + (uint32_t)i] = d->group_size[i];
        p[t->dims_at + (uint32_t)i] = end[i];
    }
    if (from[0] || from[1] || from[2])
        sp_put(p + t->dims_at + 3, COMPUTE_DISPATCH_INITIATOR_FORCE_START_AT_000, 0);
    job->dirty = 1;
    job->ndispatches++;
}

/* Finds the largest piece of a grid that starts at `at` and has at most `most` groups. Stores the
 * end of that piece in `end`. A piece is part of a row, whole rows, or whole planes. */
static void piece_end(const struct sp_cmd_dispatch *d, const uint32_t at[3], uint64_t most, uint32_t end[3])
{
    int whole = 1; /* 1 if the piece has all groups of the grid along each axis before i */
    most = most ? most : 1;
    for (int i = 0; i < 3; i++) {
        uint64_t n = whole ? most : 1;
        end[i] = n < d->groups[i] - at[i] ? at[i] + (uint32_t)n : d->groups[i];
        most /= end[i] - at[i];
        most = most ? most : 1;
        whole &= at[i] == 0 && end[i] == d->groups[i];
    }
}

static void step(const struct sp_cmd_dispatch *d, uint32_t at[3], const uint32_t end[3])
{
    for (int i = 0; i < 3; i++) {
        at[i] = end[i];
        if (i == 2 || end[i] < d->groups[i])
            return;
        at[i] = 0;
    }
}

static int dispatch(struct sp_job *job, const struct sp_cmd_dispatch *d)
{
    struct sp_amdgpu_kernel *k = (void *)(uintptr_t)d->kernel;
    uint64_t threads = (uint64_t)d->group_size[0] * d->group_size[1] * d->group_size[2];
    uint64_t limit = sp_job_limit(job->q->dev, k);
    uint32_t *at = job->flight->cursor.from, end[3];
    if (d->groups[0] == 0 || d->groups[1] == 0 || d->groups[2] == 0)
        return 0;
    while (at[2] < d->groups[2]) {
        piece_end(d, at, limit / threads, end);
        uint64_t more = threads * (end[0] - at[0]) * (end[1] - at[1]) * (end[2] - at[2]);
        int first = !job->ndispatches && !job->copied;
        if (!sp_job_fits(job, k->t.ndw + MEASURE_NDW, k->t.kernarg_nbytes) ||
            (job->threads && (job->threads > limit || more > limit - job->threads)))
            return SP_JOB_FULL;
        if (first && sp_job_tells(job->q->dev, k, more))
            sp_job_measure(job, k, more);
        else if (job->measured.kernel == k)
            job->measured.threads += more;
        else
            job->measured.kernel = NULL;
        job->threads += more;
        put_piece(job, d, at, end);
        step(d, at, end);
    }
    memset(at, 0, sizeof job->flight->cursor.from);
    return 0;
}

/* Makes later jobs wait for a value of another queue, and pins that queue. Returns SP_JOB_FULL if this job already has
 * packets, because those packets must not wait. Otherwise two queues could wait for each other for
 * ever. */
static int wait_for(struct sp_job *job, const struct sp_cmd_wait *w)
{
    struct sp_amdgpu_queue *other = (void *)(uintptr_t)w->queue;
    if (other == job->q || sp_amdgpu_reached(other) >= w->value)
        return 0;
    if (w->value > atomic_load(&other->sent))
        /* The other queue has not submitted all jobs up to this value, so there is no fence to wait
         * for. Another thread will submit them. */
        return -EAGAIN;
    if (job->dirty || job->ndispatches || job->copied || job->nwaits == SP_WAITS)
        return SP_JOB_FULL;
    if (!sp_amdgpu_pin(other))
        return 0; /* a queue that is closed has reached all its values */
    job->q->request.waited[job->q->request.nwaited++] = other;
    job->q->request.waits[job->nwaits++] = (struct drm_amdgpu_cs_chunk_syncobj){.handle = other->syncobj, .point = w->value};
    return 0;
}

static int encode_one(struct sp_job *job, const struct sp_cmd *head)
{
    const void *record = head;
    if (head->kind == SP_CMD_BARRIER)
        return 0; /* a barrier needs no packet: every record waits for the one before */
    if (head->kind == SP_CMD_WAIT)
        return wait_for(job, record);
    if (!sp_job_fits(job, ORDER_NDW + PM4_RELEASE_MEM_NDW, 0))
        return SP_JOB_FULL;
    if (head->kind != SP_CMD_DISPATCH)
        job->measured.kernel = NULL;
    sp_job_order(job);
    switch (head->kind) {
    case SP_CMD_DISPATCH: return dispatch(job, record);
    case SP_CMD_COPY: {
        const struct sp_cmd_copy *c = record;
        return sp_encode_copy(job, c->dst, c->src, c->count);
    }
    case SP_CMD_FILL: return sp_encode_fill(job, record);
    case SP_CMD_TIMESTAMP:
        sp_encode_clock(job, job->q->ticks->va + 8 * (uint64_t)(job->flight->cursor.tick++ % SP_TICKS));
        job->dirty = 1;
        return 0;
    default: return -EINVAL;
    }
}

int sp_encode(struct sp_job *job, const void *records, size_t nbytes)
{
    struct sp_cursor *cursor = &job->flight->cursor;
    int rc = 0;
    while (rc == 0 && cursor->at < nbytes) {
        const struct sp_cmd *head = (const void *)((const unsigned char *)records + cursor->at);
        rc = encode_one(job, head);
        if (rc == 0)
            cursor->at += head->nbytes;
    }
    return rc;
}
