/* Tracks the progress of a queue: reads the fence page that the kernel driver writes, finds failed
 * jobs, retires ended submissions.
 *
 * A failed job never writes its value to the fence page, so a value on the page proves success.
 * There is one exception: after the kernel driver has killed a job by soft recovery, the next job
 * writes its own, later value. The kernel driver kills a job only at the time limit of jobs, which
 * is at least 2 s. So if a job took LONG_NS or more, this file asks the kernel driver by an ioctl
 * whether the job failed. */
#include "progress.h"
#include "amdgpu/device/anchor.h"
#include "amdgpu/flight/context.h"
#include "amdgpu/flight/flight.h"
#include "amdgpu/flight/link.h"
#include "amdgpu/packets/length.h"
#include "canary.h"
#include "core/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const uint64_t LONG_NS = UINT64_C(200) * 1000000, ENDED_NS = UINT64_C(15) * 1000000000;

/* Waits for a job by the ioctl WAIT_CS. Returns 0 when the job is done, -ETIMEDOUT at the deadline,
 * otherwise the job's error. After an interrupted ioctl the result is -ETIMEDOUT, so that the
 * caller asks again. */
static int wait_job(struct sp_amdgpu_queue *q, const struct sp_engine *e, uint64_t job, uint64_t deadline_ns)
{
    union drm_amdgpu_wait_cs args;
    memset(&args, 0, sizeof args);
    args.in = (struct drm_amdgpu_wait_cs_in){
        .handle = job - e->base, .timeout = deadline_ns, .ip_type = e->ip, .ring = e->entity, .ctx_id = q->ctx};
    int rc = sp_amdgpu_ioctl(q->dev, DRM_IOCTL_AMDGPU_WAIT_CS, &args);
    if (rc == -EINTR || rc == -EAGAIN || rc == -ENOMEM)
        return -ETIMEDOUT;
    return rc < 0 ? rc : args.out.status ? -ETIMEDOUT : 0;
}

int sp_amdgpu_sleep(struct sp_amdgpu_queue *q, uint64_t value, uint64_t deadline_ns)
{
    struct drm_syncobj_timeline_wait args = {.handles = (uint64_t)(uintptr_t)&q->syncobj,
                                             .points = (uint64_t)(uintptr_t)&value,
                                             .timeout_nsec = (int64_t)(deadline_ns < INT64_MAX ? deadline_ns : INT64_MAX),
                                             .count_handles = 1};
    int rc = sp_amdgpu_ioctl(q->dev, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
    return rc == -ETIME ? -ETIMEDOUT : rc < 0 ? rc : 0;
}

static uint64_t tick(const struct sp_amdgpu_queue *q, uint32_t at)
{
    const volatile uint64_t *ticks = sp_amdgpu_host(q->ticks);
    return sp_amdgpu_ns(q->dev, ticks[at % SP_TICKS]);
}

/* Converts the GPU ticks of the submission's timestamps to ns. Stores each result at the address
 * `slot` of its record (struct sp_cmd_timestamp). */
static void stamp(struct sp_amdgpu_queue *q, const struct sp_flight *f, uint32_t at)
{
    for (size_t i = 0; i < f->nbytes;) {
        const struct sp_cmd *head = (const void *)(f->records + i);
        if (head->kind == SP_CMD_TIMESTAMP) {
            void *host;
            uint64_t ns = tick(q, at++);
            sp_amdgpu_find(q->dev, ((const struct sp_cmd_timestamp *)(const void *)head)->slot, 8, &host);
            if (host)
                memcpy(host, &ns, sizeof ns);
            sp_amdgpu_wrote(q->dev);
        }
        i += head->nbytes;
    }
}

static void complete(struct sp_amdgpu_queue *q, int rc)
{
    struct sp_flight *f = q->head;
    uint64_t start_ns = 0, end_ns = 0;
    uint32_t first = f->first_tick;
    if (rc == 0)
        rc = f->rc;
    if (rc == 0 && (q->common.ledger.times || f->nticks))
        sp_anchor_renew(q->dev);
    if (q->common.ledger.times && rc == 0) {
        start_ns = tick(q, first);
        end_ns = tick(q, first + 1);
        end_ns = end_ns < start_ns ? start_ns : end_ns;
        first += 2;
    }
    if (rc == 0 && f->nticks)
        stamp(q, f, first);
    if (rc == 0 && f->transfer.out)
        memcpy(f->transfer.out, sp_amdgpu_host(f->transfer.kept[0]), f->transfer.out_nbytes);
    sp_ledger_note(&q->common.ledger, f->value, start_ns, end_ns, rc);
    q->head = f->next;
    if (!q->head)
        q->tail = NULL;
    q->ticks_used -= f->nticks;
    /* SDMA writes bypass L2, so later jobs must invalidate L2 */
    if (f->engine->ip == AMDGPU_HW_IP_DMA)
        sp_amdgpu_wrote(q->dev);
    atomic_store(&q->reached, f->value);
    sp_flight_end(q, f);
}

static void names_of(const struct sp_flight *f, char *out, size_t nbytes)
{
    out[0] = 0;
    for (size_t i = 0, n = 0; i < f->nbytes && n < nbytes;) {
        const struct sp_cmd *head = (const void *)(f->records + i);
        if (head->kind == SP_CMD_DISPATCH) {
            const struct sp_amdgpu_kernel *k =
                (const void *)(uintptr_t)((const struct sp_cmd_dispatch *)(const void *)head)->kernel;
            if (!strstr(out, k->t.name)) {
                int wrote = snprintf(out + n, nbytes - n, "%s%s", n ? ", " : "", k->t.name);
                n += wrote > 0 ? (size_t)wrote : 0;
            }
        }
        i += head->nbytes;
    }
    if (!out[0])
        snprintf(out, nbytes, "a copy or fill");
}

__attribute__((format(printf, 3, 4))) static void note(struct sp_amdgpu_queue *q, uint64_t value, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&q->dev->lock);
    struct sp_fault_text *t = &q->dev->faults[q->dev->next_fault++ % SP_FAULT_TEXTS];
    t->q = q;
    t->value = value;
    vsnprintf(t->text, sizeof t->text, format, arguments);
    pthread_mutex_unlock(&q->dev->lock);
    va_end(arguments);
}

/* Records the text of the fault of a failed submission. */
static void tell(struct sp_amdgpu_queue *q, const struct sp_flight *f, int rc)
{
    struct sp_amdgpu *dev = q->dev;
    struct drm_amdgpu_info_gpuvm_fault fault;
    char names[120], where[100] = "it hung, ran too long, or touched unmapped memory";
    names_of(f, names, sizeof names);
    if (sp_amdgpu_info(dev, AMDGPU_INFO_GPUVM_FAULT, 0, &fault, sizeof fault) >= 0 && fault.addr)
        snprintf(where, sizeof where, "page fault at %#llx", (unsigned long long)fault.addr);
    note(q, f->value, "%s: %s (the kernel driver says %s)", names, where,
         rc == -ETIME ? "-ETIME" : rc == -ENODATA ? "-ENODATA" : "an error");
}

size_t sp_amdgpu_fault(struct sp_amdgpu_queue *q, uint64_t value, char *out, size_t capacity)
{
    /* error text of the submission of `value`; without one, the queue's newest error text before
     * `value` */
    const struct sp_fault_text *best = NULL;
    size_t nbytes = 0;
    pthread_mutex_lock(&q->dev->lock);
    for (int i = 0; i < SP_FAULT_TEXTS; i++) {
        const struct sp_fault_text *t = &q->dev->faults[i];
        if (t->q == q && t->value <= value && (!best || t->value > best->value))
            best = t;
    }
    if (best) {
        nbytes = strlen(best->text) < capacity ? strlen(best->text) : capacity;
        memcpy(out, best->text, nbytes);
    }
    pthread_mutex_unlock(&q->dev->lock);
    return nbytes;
}

/* Reads from the fence page which jobs of each engine have ended. */
static void read_page(struct sp_amdgpu_queue *q)
{
    volatile uint64_t *page = atomic_load(&q->page);
    for (int i = 0; page && i < SP_ENGINES; i++) {
        struct sp_engine *e = &q->engine[i];
        uint64_t seq = __atomic_load_n(page + i, __ATOMIC_ACQUIRE), done = e->base + seq;
        atomic_store(&q->seen[i], seq);
        if (done <= e->jobs_done || done > e->jobs)
            continue;
        if (i == SP_ENGINE_COMPUTE)
            sp_amdgpu_learn(q, e->jobs_done, done);
        e->jobs_done = done;
    }
}

/* Returns the error of a submission from `rc`, the result of its jobs. If one of its jobs failed,
 * this records an error text for the queue. */
static int failure(struct sp_amdgpu_queue *q, const struct sp_flight *f, int rc)
{
    /* -EFAULT: the kernel driver refused a job that is not the first of its submission. If it
     * refuses the first job, the submission fails at once and does not come here. */
    if (rc == -EFAULT)
        note(q, f->value, "host memory that it uses was unmapped before all its jobs were submitted");
    if (rc != -ETIME && rc != -ENODATA)
        return rc;
    tell(q, f, rc);
    return -EIO;
}

/* Returns the result of the peer's reads from value `first` to `last`: 0 or -errno. Each chunk is
 * one timeline value of the queue `reader`. The job of our queue that copies a chunk starts even if
 * the read of that chunk failed. Reads for other queues may lie between `first` and `last`: if one
 * of them failed, our copy fails too. */
static int reader_outcome(struct sp_amdgpu_queue *reader, uint64_t first, uint64_t last)
{
    pthread_mutex_lock(reader->common.lock);
    if (atomic_load(&reader->reached) < last)
        sp_amdgpu_inspect(reader);
    int rc = sp_ledger_among(&reader->common.ledger, first, last);
    if (rc == 0 && atomic_load(&reader->reached) < last)
        rc = -EIO; /* our queue copied out of the chunk before the peer had filled the chunk */
    return (int)sp_queue_leave(&reader->common, rc);
}

/* Returns the error that the peer had while it read the bytes of a copy between devices, or 0. The
 * jobs of the submission `f` itself have succeeded. */
static int peer_failure(struct sp_amdgpu_queue *q, const struct sp_flight *f)
{
    const struct sp_transfer *t = &f->transfer;
    struct sp_amdgpu_link *link = t->link;
    int rc = link && t->last_read ? reader_outcome(link->reader, t->first_read, t->last_read) : 0;
    if (link && rc == 0 && f->rc && atomic_load(&link->reader->dev->common.lost))
        rc = -ENODEV;
    if (rc == 0)
        return 0;
    char why[SP_FAULT_TEXT / 2];
    int lost = sp_amdgpu_lost(link->reader->dev, why, sizeof why);
    note(q, f->value, "a copy from another device: that device %s%s", lost ? "was lost: " : "failed to read the bytes", why);
    return -EIO;
}

/* Retires the oldest submission. Its error is `rc`. If `rc` is 0 and the submission copies from
 * another device, its error is that of the reads on the other device. */
static void complete_failed(struct sp_amdgpu_queue *q, int rc)
{
    rc = rc ? rc : peer_failure(q, q->head);
    complete(q, failure(q, q->head, rc));
}

void sp_amdgpu_retire(struct sp_amdgpu_queue *q)
{
    read_page(q);
    while (q->head && q->head->job <= q->head->engine->jobs_done) {
        int rc = 0;
        const struct sp_engine *e = q->head->engine;
        if (q->head->job > e->base && sp_clock_coarse_ns() - q->head->submitted_ns > LONG_NS)
            rc = wait_job(q, e, q->head->job, 0);
        complete_failed(q, rc == -ENODATA ? rc : 0);
    }
}

int sp_amdgpu_recover(struct sp_amdgpu_queue *q, int rc)
{
    uint64_t until = sp_clock_ns() + ENDED_NS, flags = 0;
    if (q->tail && q->tail->rc == 0 && !atomic_load(&q->dev->common.lost))
        /* other jobs of the failed context may still be running */
        sp_amdgpu_sleep(q, q->tail->value, until);
    sp_amdgpu_retire(q);
    int renewed = atomic_load(&q->dev->common.lost) ? -ENODEV : sp_amdgpu_queue_renew(q, &flags);
    if (renewed == 0 && flags & AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST)
        sp_amdgpu_lose(q->dev, "a reset of the GPU erased its memory; close the device and open it again");
    if (renewed == 0 && !atomic_load(&q->dev->common.lost))
        renewed = sp_amdgpu_canary(q);
    int lost = atomic_load(&q->dev->common.lost) || renewed;
    int others = lost ? -ENODEV : -ECANCELED, oldest = rc != -ENODEV ? rc : others;
    if (q->sending && q->sending->begun && !q->sending->rc)
        q->sending->rc = failure(q, q->sending, q->head ? others : oldest);
    for (; q->head; oldest = others)
        complete_failed(q, oldest);
    /* no submission keeps the measured kernels alive any more, so forget them */
    memset(q->measured, 0, sizeof q->measured);
    return lost ? -ENODEV : 0;
}

void sp_amdgpu_inspect(struct sp_amdgpu_queue *q)
{
    atomic_store(&q->looked_ns, sp_clock_ns());
    sp_amdgpu_retire(q);
    if (!q->head)
        return;
    const struct sp_engine *e = q->head->engine;
    int rc = atomic_load(&q->dev->common.lost) ? -ENODEV : wait_job(q, e, e->jobs_done + 1, 0);
    if (rc == 0)
        sp_amdgpu_retire(q);
    else if (rc != -ETIMEDOUT)
        sp_amdgpu_recover(q, rc);
}

/* Waits until one more job of the engine ends. */
static int wait_one(struct sp_amdgpu_queue *q, const struct sp_engine *e, uint64_t deadline_ns)
{
    int rc = wait_job(q, e, e->jobs_done + 1, deadline_ns);
    if (rc == 0)
        sp_amdgpu_retire(q);
    return rc == 0 || rc == -ETIMEDOUT ? rc : sp_amdgpu_recover(q, rc);
}

int sp_amdgpu_room(struct sp_amdgpu_queue *q, const struct sp_engine *e, uint64_t deadline_ns)
{
    int rc = 0;
    sp_amdgpu_retire(q);
    while (rc == 0 && e->jobs - e->jobs_done >= SP_JOBS)
        rc = wait_one(q, e, deadline_ns);
    return rc == -ETIMEDOUT ? -EAGAIN : rc;
}

int sp_amdgpu_idle(struct sp_amdgpu_queue *q)
{
    sp_amdgpu_retire(q);
    int rc = 0;
    uint64_t deadline = sp_clock_ns() + SP_PUSH_NS;
    for (struct sp_engine *e = q->engine; rc == 0 && e < q->engine + SP_ENGINES; e++)
        while (rc == 0 && e->jobs_done < e->jobs)
            rc = wait_one(q, e, deadline);
    return rc == -ETIMEDOUT ? -EAGAIN : rc;
}
