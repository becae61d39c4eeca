/* Makes a submission: finds what its records need, sends its jobs, appends it to the submissions in
 * flight. The queue's lock is held from the choice of the timeline value to the ioctl. */
#include "submit.h"
#include "amdgpu/flight/flight.h"
#include "amdgpu/flight/link.h"
#include "amdgpu/packets/clock.h"
#include "amdgpu/packets/copy.h"
#include "amdgpu/packets/length.h"
#include "amdgpu/packets/order.h"
#include "amdgpu/progress/progress.h"
#include "core/base.h"
#include "encode.h"
#include "job.h"
#include "ib_cache.h"
#include "scratch.h"

#include <errno.h>
#include <string.h>

/* Smallest copy that uses the copy engine, in bytes. For a smaller copy the change of rings costs
 * more than it saves. */
static const uint64_t SDMA_LEAST = 256 << 10;

/* What the records of a submission need: sizes of its buffers, bytes to copy and fill, the
 * number of timestamps. `waits` is 1 if a record is a wait, `dispatches` if one is a dispatch,
 * `runs` if one is anything but a barrier. */
struct needs {
    uint64_t bounce_nbytes;
    struct sp_scratch_need scratch;
    uint64_t moved_nbytes;
    uint32_t stamps;
    int waits;
    int runs;
    int dispatches;
};

static struct needs look(const void *records, size_t nbytes)
{
    struct needs n = {.runs = 0};
    const unsigned char *p = records;
    for (size_t at = 0; at < nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        n.runs |= head->kind != SP_CMD_BARRIER;
        n.stamps += head->kind == SP_CMD_TIMESTAMP;
        n.waits |= head->kind == SP_CMD_WAIT;
        if (head->kind == SP_CMD_DISPATCH) {
            n.dispatches = 1;
            const struct sp_cmd_dispatch *d = (const void *)head;
            if (((const struct sp_amdgpu_kernel *)(uintptr_t)d->kernel)->t.scratch_wave_nbytes)
                sp_scratch_more(&n.scratch, d);
        } else if (head->kind == SP_CMD_COPY) {
            const struct sp_cmd_copy *c = (const void *)head;
            n.moved_nbytes += c->count;
            if (sp_copy_overlaps(c) && c->count > n.bounce_nbytes)
                n.bounce_nbytes = c->count;
        } else if (head->kind == SP_CMD_FILL) {
            n.moved_nbytes += ((const struct sp_cmd_fill *)(const void *)head)->count;
        }
        at += head->nbytes;
    }
    return n;
}

/* Chooses the engine of a submission. Large submissions that only copy and fill go to the copy
 * ring, so that other queues can compute meanwhile. Timed submissions stay on the compute ring,
 * because SDMA may write a TIMESTAMP before earlier copies end; the order is unknown. */
static struct sp_engine *engine_for(struct sp_amdgpu_queue *q, const struct needs *n)
{
    int dma = q->dev->setup.dma && n->moved_nbytes >= SDMA_LEAST && !n->dispatches && !n->stamps && !q->common.ledger.times;
    dma = dma && !atomic_load_explicit(&q->dev->no_dma, memory_order_relaxed);
    return &q->engine[dma ? SP_ENGINE_DMA : SP_ENGINE_COMPUTE];
}

/* Returns 1 if the command records whose needs are `n` would make the same IB again. */
static int is_cacheable(const struct sp_amdgpu_queue *q, const struct needs *n, const struct sp_engine *e)
{
    return e == &q->engine[SP_ENGINE_COMPUTE] && !n->waits && !n->stamps && !n->bounce_nbytes && !n->scratch.wave_nbytes;
}

static int take_ticks(struct sp_amdgpu_queue *q, struct sp_flight *f, uint32_t count)
{
    int rc = count > SP_TICKS ? -E2BIG : 0;
    while (rc == 0 && q->ticks_used + count > SP_TICKS)
        rc = sp_amdgpu_idle(q);
    if (rc)
        return rc;
    f->first_tick = q->next_tick;
    f->nticks = count;
    q->next_tick = (q->next_tick + count) % SP_TICKS;
    q->ticks_used += count;
    return 0;
}

/* Ends the IB and submits it. `point` is the timeline value for the last job of a submission, 0 for
 * an earlier job. */
static int submit_job(struct sp_job *job, uint64_t point)
{
    if (job->measured.kernel)
        sp_job_measure_end(job);
    sp_job_end(job);
    int rc = sp_job_send(job, point);
    if (rc == 0 && point)
        sp_ib_cache_store(job);
    job->flight->begun |= rc == 0;
    return rc;
}

/* Makes the peer's queue copy `nbytes` from `from` into the link's next chunk. Returns the peer's
 * timeline value, or -errno. */
static int64_t read_in(struct sp_amdgpu_link *link, uint64_t from, uint64_t nbytes)
{
    struct sp_amdgpu_queue *reader = link->reader;
    struct sp_amdgpu_memory *to = link->there[link->next];
    void *unused;
    int64_t rc = sp_queue_enter(&reader->common, SP_ANY_EPOCH);
    if (rc)
        return rc;
    struct sp_amdgpu_memory *source = sp_amdgpu_find(reader->dev, from, nbytes, &unused);
    if (!source)
        return sp_queue_leave(&reader->common, -EFAULT);
    struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = to->va, .src = from, .count = nbytes};
    sp_amdgpu_hold(source);
    sp_amdgpu_hold(to);
    rc = sp_amdgpu_enqueue(reader, &c, sizeof c, &(struct sp_transfer){.kept = {source, to}, .shared = to});
    if (rc < 0) { /* on an error nothing was sent, because a copy into a chunk is only one job */
        sp_amdgpu_free(source);
        sp_amdgpu_free(to);
    }
    return sp_queue_leave(&reader->common, rc);
}

/* Encodes one chunk of a copy from another device. The other device's queue (`reader`) copies the
 * next bytes of the source into a chunk. This job names the chunk in its BO list, and copies the
 * bytes out of it. Returns 0 after the last chunk, SP_JOB_FULL if more follow, or -errno. The
 * caller holds the link's lock. */
static int encode_over(struct sp_job *job)
{
    struct sp_flight *f = job->flight;
    struct sp_amdgpu_link *link = f->transfer.link;
    const struct sp_cmd_copy *c = (const void *)f->records;
    uint64_t moved = f->cursor.moved, left = c->count - moved, n = left < SP_CHUNK_NBYTES ? left : SP_CHUNK_NBYTES;
    int64_t value = read_in(link, f->transfer.from + moved, n);
    if (value < 0)
        return (int)value;
    f->transfer.first_read = f->transfer.first_read ? f->transfer.first_read : (uint64_t)value;
    f->transfer.last_read = (uint64_t)value;
    job->shared = link->here[link->next];
    f->cursor.moved = 0;
    sp_job_order(job);
    int rc = sp_encode_copy(job, c->dst + moved, job->shared->va, n);
    f->cursor.moved = moved + n;
    return rc ? -EIO : n < left ? SP_JOB_FULL : 0; /* a chunk always fits into one job */
}

/* Unpins the queues for which a job waits: the kernel driver has the job, or it will not get it. */
static void unpin(struct sp_request *r)
{
    while (r->nwaited)
        sp_amdgpu_unpin(r->waited[--r->nwaited]);
}

/* Sends one more job of a submission. Returns 0 after the last job, SP_JOB_FULL if more follow, or
 * -errno if nothing was submitted. */
static int send_one(struct sp_amdgpu_queue *q, struct sp_flight *f)
{
    struct sp_job job = {.q = q, .flight = f};
    struct sp_cursor before = f->cursor;
    int timed = q->common.ledger.times != NULL;
    sp_job_begin(&job, sp_ib_cache_slot(q, f));
    job.shared = f->transfer.shared;
    if (timed && !f->begun)
        sp_encode_start(&job, q->ticks->va + 8 * (uint64_t)f->first_tick);
    int more = f->transfer.link ? encode_over(&job) : sp_encode(&job, f->records, f->nbytes);
    if (more == 0 && timed) {
        sp_job_order(&job);
        sp_encode_clock(&job, q->ticks->va + 8 * (uint64_t)((f->first_tick + 1) % SP_TICKS));
    }
    const int rc = more < 0 ? more : submit_job(&job, more ? 0 : f->value);
    unpin(&q->request);
    if (rc) {
        f->cursor = before;
        return rc;
    }
    return more;
}

/* Waits until the link's `reader` (a queue of the other device) has room for a job. Returns 0,
 * -EAGAIN at the deadline, or an error: that queue is closed or can run no more jobs. */
static int reader_room(struct sp_amdgpu_link *link, uint64_t deadline_ns)
{
    struct sp_amdgpu_queue *reader = link->reader;
    int rc = sp_queue_enter(&reader->common, SP_ANY_EPOCH);
    if (rc)
        return rc;
    for (const struct sp_engine *e = reader->engine; rc == 0 && e < reader->engine + SP_ENGINES; e++)
        rc = sp_amdgpu_room(reader, e, deadline_ns);
    return (int)sp_queue_leave(&reader->common, rc);
}

/* Sends one more job of a copy from another device, like send_one. While the link's lock is held,
 * no other copy uses the chunk. The lock is held until the job that copies out of the chunk is
 * submitted. If that submission fails, the other device's queue (link->reader) fills the same chunk
 * again. */
static int send_one_over(struct sp_amdgpu_queue *q, struct sp_flight *f)
{
    struct sp_amdgpu_link *link = f->transfer.link;
    pthread_mutex_lock(&link->lock);
    int rc = send_one(q, f);
    if (rc >= 0)
        link->next = (link->next + 1) % SP_LINK_CHUNKS;
    pthread_mutex_unlock(&link->lock);
    return rc;
}

static int send(struct sp_amdgpu_queue *q, struct sp_flight *f, uint64_t timeout_ns)
{
    const struct sp_engine *e = f->engine;
    struct sp_amdgpu_link *link = f->transfer.link;
    uint64_t until = link ? sp_clock_ns() + timeout_ns : 0;
    int rc = SP_JOB_FULL;
    while (rc == SP_JOB_FULL) {
        rc = link && !f->rc ? reader_room(link, until) : 0;
        /* The usual submission is one job for which the ring has room. Such a submission does not
         * wait. */
        if (rc == 0 && (f->begun || e->jobs - e->jobs_done >= SP_JOBS)) {
            until = until ? until : sp_clock_ns() + timeout_ns;
            rc = sp_amdgpu_room(q, e, until);
        }
        if (rc == 0 && !f->rc)
            rc = link ? send_one_over(q, f) : send_one(q, f);
        if (f->rc)
            rc = f->rc; /* earlier jobs of the submission failed meanwhile (sp_amdgpu_recover) */
    }
    return rc;
}

/* Appends a submission to those in flight. `rc` is the error if its remaining jobs cannot be
 * submitted, otherwise 0. */
static void line_up(struct sp_amdgpu_queue *q, struct sp_flight *f, int rc)
{
    if (rc) { /* signal the value of the syncobj: waits for this value would otherwise never end */
        struct drm_syncobj_timeline_array signal = {
            .handles = (uint64_t)(uintptr_t)&q->syncobj, .points = (uint64_t)(uintptr_t)&f->value, .count_handles = 1};
        sp_amdgpu_ioctl(q->dev, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &signal);
        f->rc = rc;
    }
    sp_flight_append(q, f);
}

int sp_amdgpu_push(struct sp_amdgpu_queue *q, uint64_t timeout_ns)
{
    struct sp_flight *f = q->sending;
    int rc = f ? send(q, f, timeout_ns) : 0;
    if (!f || rc == -EAGAIN)
        return rc;
    q->sending = NULL;
    line_up(q, f, rc);
    return 0;
}

static int prepare_flight(struct sp_amdgpu_queue *q, struct sp_flight *f, const struct needs *needs)
{
    int rc = take_ticks(q, f, needs->stamps + (q->common.ledger.times ? 2 : 0));
    if (rc == 0 && needs->scratch.wave_nbytes)
        rc = sp_amdgpu_queue_scratch(q, &needs->scratch);
    if (rc == 0 && needs->bounce_nbytes)
        rc = sp_amdgpu_alloc(q->dev, needs->bounce_nbytes, SP_AMDGPU_DEVICE, &f->bounce);
    return rc;
}

int64_t sp_amdgpu_enqueue(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, const struct sp_transfer *transfer)
{
    uint64_t value = sp_queue_newest(&q->common) + 1;
    struct needs needs = look(records, nbytes);
    if (transfer && transfer->link)
        needs.bounce_nbytes = 0; /* source and target are on two devices, so they cannot overlap */
    struct sp_engine *e = engine_for(q, &needs);
    int rc = sp_amdgpu_push(q, SP_PUSH_NS);
    if (rc)
        return rc;
    sp_count(&q->counted.submissions, 1);
    if (q->head)
        sp_amdgpu_retire(q);
    /* The records run nothing and wait for nothing, so the value is reached at once. */
    if (!needs.runs && !q->head && !q->common.ledger.times) {
        sp_queue_take_value(&q->common);
        atomic_store(&q->reached, value);
        return (int64_t)value;
    }
    struct sp_cached_ib *recorded = is_cacheable(q, &needs, e) && !transfer ? sp_ib_cache_reserve(q, records, nbytes) : NULL;
    struct sp_flight *f = sp_flight_begin(q, recorded, records, nbytes);
    if (!f)
        return -ENOMEM;
    f->value = value;
    f->engine = e;
    (recorded ? &recorded->list : &q->list)->turn = 0;
    if (transfer)
        f->transfer = *transfer;
    rc = prepare_flight(q, f, &needs);
    f->cursor.tick = f->first_tick + (q->common.ledger.times ? 2 : 0);
    q->sending = f;
    if (rc == 0)
        rc = send(q, f, SP_PUSH_NS);
    if (rc != -EAGAIN || !f->begun)
        q->sending = NULL;
    if (rc && !f->begun) {
        q->ticks_used -= f->nticks;
        /* no later submission has timestamps, so the next one reuses the entries of `ticks` from
         * `first_tick` on */
        if (f->nticks)
            q->next_tick = f->first_tick;
        /* the memory of the transfer belongs to the caller again */
        f->transfer = (struct sp_transfer){.out = NULL};
        sp_flight_end(q, f);
        return rc;
    }
    sp_queue_take_value(&q->common);
    if (q->sending)
        return -SP_AMDGPU_BEGUN - (int64_t)value;
    line_up(q, f, rc);
    return (int64_t)value;
}

int64_t sp_amdgpu_encode(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint32_t *out, size_t capacity)
{
    struct sp_engine *e = &q->engine[SP_ENGINE_COMPUTE];
    struct sp_flight flight = {.engine = e};
    struct sp_job job = {.q = q, .flight = &flight};
    int64_t rc = !sp_queue_usable(&q->common) ? -ECHILD : sp_amdgpu_check(q->dev, records, nbytes);
    if (rc)
        return rc;
    pthread_mutex_lock(q->common.lock);
    uint64_t jobs = e->jobs;
    rc = atomic_load(&q->common.closing) ? -ESHUTDOWN : sp_amdgpu_room(q, e, sp_clock_ns() + SP_PUSH_NS);
    if (rc == 0) {
        sp_job_begin(&job, jobs % SP_JOBS);
        rc = sp_encode(&job, records, nbytes);
        unpin(&q->request);
    }
    if (rc == SP_JOB_FULL || (rc == 0 && e->jobs != jobs))
        rc = -E2BIG; /* the records need more than one job, or jobs were submitted meanwhile */
    if (rc == 0) {
        struct sp_invalidate invalid;
        sp_job_end(&job);
        sp_caches_look(q, e, sp_caches_reasons(&job), &invalid);
        sp_caches_put(job.ib, &invalid, 0);
        memcpy(out, job.ib, (job.ndw < capacity ? job.ndw : capacity) * sizeof *out);
        rc = job.ndw;
    }
    pthread_mutex_unlock(q->common.lock);
    return rc;
}
