/* Queues: values are given out under the queue's lock, in the thread that submits; nothing runs in between. */
#include "device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE_TIMING = 1 }; /* as SP_QUEUE_TIMING of the cpu device */
static const uint64_t LOOK_NS = 20 * 1000000, SLICE_NS = 100 * 1000000;

static int usable(const struct sp_amdgpu_queue *q)
{
    return q->fork_generation == sp_fork_generation();
}

/* Takes the lock and keeps it when records packed in `epoch` may be looked at. */
static int enter(struct sp_amdgpu_queue *q, uint64_t epoch)
{
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->lock);
    int rc = q->closing                                                          ? -ESHUTDOWN
             : atomic_load(&q->dev->lost)                                        ? -ENODEV
             : epoch != SP_ANY_EPOCH && atomic_load(&q->dev->epoch) != epoch ? -ESTALE
                                                                                 : 0;
    if (rc)
        pthread_mutex_unlock(&q->lock);
    return rc;
}

static int64_t leave(struct sp_amdgpu_queue *q, int64_t rc)
{
    pthread_mutex_unlock(&q->lock);
    return rc;
}

/* What records need before they can be encoded. */
struct needs {
    uint64_t bounce_nbytes;
    uint64_t scratch_wave_nbytes;
    uint32_t stamps;
    int runs;
};

static struct needs look(const void *records, size_t nbytes)
{
    struct needs n = {.runs = 0};
    const unsigned char *p = records;
    for (size_t at = 0; at < nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        n.runs |= head->kind != SP_CMD_BARRIER;
        n.stamps += head->kind == SP_CMD_TIMESTAMP;
        if (head->kind == SP_CMD_DISPATCH) {
            const struct sp_amdgpu_kernel *k =
                (const void *)(uintptr_t)((const struct sp_cmd_dispatch *)(const void *)head)->kernel;
            if (k->t.scratch_wave_nbytes > n.scratch_wave_nbytes)
                n.scratch_wave_nbytes = k->t.scratch_wave_nbytes;
        } else if (head->kind == SP_CMD_COPY) {
            const struct sp_cmd_copy *c = (const void *)head;
            if (sp_copy_overlaps(c) && c->count > n.bounce_nbytes)
                n.bounce_nbytes = c->count;
        }
        at += head->nbytes;
    }
    return n;
}

static int take_ticks(struct sp_amdgpu_queue *q, struct sp_flight *f, uint32_t count)
{
    int rc = count > SP_TICKS ? -E2BIG : 0;
    while (rc == 0 && q->ticks_used + count > SP_TICKS)
        rc = sp_queue_idle(q);
    if (rc)
        return rc;
    f->first_tick = q->next_tick;
    f->nticks = count;
    q->next_tick = (q->next_tick + count) % SP_TICKS;
    q->ticks_used += count;
    return 0;
}

/* Jobs until the records are through. `sent`: at least one is on its way. */
static int send(struct sp_amdgpu_queue *q, struct sp_flight *f, uint64_t before)
{
    struct sp_job job = {.q = q, .flight = f};
    int rc = sp_job_begin(&job);
    if (rc)
        return rc;
    if (q->ledger.times)
        sp_encode_start(&job, q->ticks->va + 8 * (uint64_t)f->first_tick);
    rc = sp_encode(&job, f->records, f->nbytes);
    if (rc == 0 && q->ledger.times) {
        sp_job_order(&job);
        sp_encode_clock(&job, q->ticks->va + 8 * (uint64_t)((f->first_tick + 1) % SP_TICKS));
    }
    if (rc == 0)
        rc = sp_job_submit(&job, f->value);
    if (rc == 0 || q->jobs == before)
        return rc;
    /* The rest of it failed: who waits for its value must not wait for ever. */
    struct drm_syncobj_timeline_array signal = {
        .handles = (uint64_t)(uintptr_t)&q->syncobj, .points = (uint64_t)(uintptr_t)&f->value, .count_handles = 1};
    sp_amdgpu_ioctl(q->dev, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &signal);
    f->rc = rc;
    return 0;
}

static int prepare_flight(struct sp_amdgpu_queue *q, struct sp_flight *f, const struct needs *needs)
{
    int rc = take_ticks(q, f, needs->stamps + (q->ledger.times ? 2 : 0));
    if (rc == 0 && needs->scratch_wave_nbytes)
        rc = sp_queue_scratch(q, needs->scratch_wave_nbytes);
    if (rc == 0 && needs->bounce_nbytes)
        rc = sp_amdgpu_alloc(q->dev, needs->bounce_nbytes, SP_AMDGPU_DEVICE, &f->bounce);
    return rc;
}

/* Entered, and the records are checked. `staging` is the submission's own when this succeeds. */
static int64_t enqueue(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, struct sp_amdgpu_memory *staging,
                       void *out, uint64_t out_nbytes)
{
    uint64_t value = atomic_load(&q->submitted) + 1, before = q->jobs;
    struct needs needs = look(records, nbytes);
    atomic_fetch_add_explicit(&q->dev->submissions, 1, memory_order_relaxed);
    if (q->head)
        sp_queue_retire(q);
    if (!needs.runs && !q->head && !q->ledger.times) { /* nothing to do, nothing to wait for */
        atomic_store(&q->submitted, value);
        atomic_store(&q->reached, value);
        return (int64_t)value;
    }
    struct sp_flight *f = calloc(1, sizeof *f + nbytes);
    if (!f)
        return -ENOMEM;
    f->value = value;
    f->nbytes = nbytes;
    if (nbytes)
        memcpy(f->records, records, nbytes);
    int rc = prepare_flight(q, f, &needs);
    f->submitted_ns = sp_clock_ns();
    if (rc == 0)
        rc = send(q, f, before);
    if (rc) {
        q->ticks_used -= f->nticks;
        sp_amdgpu_free(f->bounce);
        free(f);
        return rc;
    }
    f->job = q->jobs;
    f->staging = staging;
    f->out = out;
    f->out_nbytes = out_nbytes;
    if (q->tail)
        q->tail->next = f;
    else
        q->head = f;
    q->tail = f;
    atomic_store(&q->submitted, value);
    return (int64_t)value;
}

int64_t sp_amdgpu_launch(struct sp_amdgpu_queue *q, const void *record, size_t nbytes, uint64_t epoch)
{
    int rc = enter(q, epoch);
    if (rc)
        return rc;
    rc = sp_amdgpu_check_dispatch(q->dev, record, nbytes);
    return leave(q, rc ? rc : enqueue(q, record, nbytes, NULL, NULL, 0));
}

int64_t sp_amdgpu_submit(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint64_t epoch)
{
    int rc = enter(q, epoch);
    if (rc)
        return rc;
    rc = sp_amdgpu_check(q->dev, records, nbytes);
    return leave(q, rc ? rc : enqueue(q, records, nbytes, NULL, NULL, 0));
}

struct sp_amdgpu_prepared {
    struct sp_amdgpu_queue *q;
    size_t nbytes;
    uint64_t epoch;
    _Alignas(16) unsigned char record[];
};

int sp_amdgpu_prepare(struct sp_amdgpu_queue *q, const void *record, size_t nbytes, uint64_t epoch,
                      struct sp_amdgpu_prepared **out)
{
    int rc = enter(q, epoch);
    if (rc)
        return rc;
    rc = sp_amdgpu_check_dispatch(q->dev, record, nbytes);
    struct sp_amdgpu_prepared *p = rc ? NULL : malloc(sizeof *p + nbytes);
    leave(q, 0);
    if (!p)
        return rc ? rc : -ENOMEM;
    *p = (struct sp_amdgpu_prepared){.q = q, .nbytes = nbytes, .epoch = epoch};
    memcpy(p->record, record, nbytes);
    atomic_fetch_add(&q->refs, 1);
    *out = p;
    return 0;
}

int64_t sp_amdgpu_run(struct sp_amdgpu_prepared *p)
{
    int rc = enter(p->q, p->epoch);
    return rc ? rc : leave(p->q, enqueue(p->q, p->record, p->nbytes, NULL, NULL, 0));
}

static void unref(struct sp_amdgpu_queue *q)
{
    if (atomic_fetch_sub(&q->refs, 1) != 1)
        return;
    struct sp_amdgpu *dev = q->dev;
    while (q->head) { /* never closed: the kernel keeps what runs alive by itself */
        struct sp_flight *f = q->head;
        q->head = f->next;
        sp_amdgpu_free(f->staging);
        sp_amdgpu_free(f->bounce);
        free(f);
    }
    if (!q->closed) {
        sp_queue_unmake(q);
        sp_amdgpu_unuse(dev);
    }
    pthread_mutex_destroy(&q->lock);
    sp_ledger_free(&q->ledger);
    free(q->list);
    free(q);
    atomic_fetch_sub(&sp_live()->queues, 1);
    sp_amdgpu_unref(dev);
}

void sp_amdgpu_unprepare(struct sp_amdgpu_prepared *p)
{
    if (!p)
        return;
    if (usable(p->q))
        unref(p->q);
    free(p);
}

int sp_amdgpu_queue_open(struct sp_amdgpu *dev, uint32_t flags, struct sp_amdgpu_queue **out)
{
    if (dev->fork_generation != sp_fork_generation())
        return -ECHILD;
    if (flags & ~(uint32_t)QUEUE_TIMING)
        return -EINVAL;
    if (atomic_load(&dev->lost))
        return -ENODEV;
    struct sp_amdgpu_queue *q = calloc(1, sizeof *q);
    if (!q || sp_ledger_init(&q->ledger, (flags & QUEUE_TIMING) != 0)) {
        free(q);
        return -ENOMEM;
    }
    pthread_mutex_init(&q->lock, NULL);
    q->dev = dev;
    q->fork_generation = dev->fork_generation;
    atomic_store(&q->refs, 1);
    atomic_fetch_add(&sp_live()->queues, 1);
    sp_amdgpu_ref(dev);
    sp_amdgpu_use(dev);
    int rc = sp_queue_make(q);
    if (rc < 0)
        unref(q);
    else
        *out = q;
    return rc < 0 ? rc : 0;
}

int sp_amdgpu_queue_close(struct sp_amdgpu_queue *q, uint64_t timeout_ns)
{
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->lock);
    q->closing = 1;
    pthread_mutex_unlock(&q->lock);
    if (sp_amdgpu_wait(q, atomic_load(&q->submitted), timeout_ns) == -ETIMEDOUT)
        return -ETIMEDOUT;
    pthread_mutex_lock(&q->lock);
    if (!q->closed) {
        sp_queue_unmake(q);
        sp_amdgpu_unuse(q->dev);
    }
    q->closed = 1;
    pthread_mutex_unlock(&q->lock);
    return 0;
}

void sp_amdgpu_queue_release(struct sp_amdgpu_queue *q)
{
    if (q && usable(q))
        unref(q);
}

uint64_t sp_amdgpu_submitted(struct sp_amdgpu_queue *q)
{
    return atomic_load(&q->submitted);
}

uint64_t sp_amdgpu_settled(struct sp_amdgpu_queue *q)
{
    if (!usable(q))
        return atomic_load(&q->submitted);
    pthread_mutex_lock(&q->lock);
    return (uint64_t)leave(q, (int64_t)atomic_load(&q->submitted));
}

/* Eight bytes are read; only when they changed, or nothing was heard for a while, is there more to do. */
uint64_t sp_amdgpu_reached(struct sp_amdgpu_queue *q)
{
    uint64_t reached = atomic_load(&q->reached);
    volatile uint64_t *page = atomic_load(&q->page);
    if (reached == atomic_load(&q->submitted) || !page || !usable(q))
        return reached;
    int moved = __atomic_load_n(page, __ATOMIC_ACQUIRE) != atomic_load(&q->seen);
    if (!moved && sp_clock_ns() - atomic_load(&q->looked_ns) < LOOK_NS)
        return reached;
    if (pthread_mutex_trylock(&q->lock))
        return reached;
    if (moved)
        sp_queue_retire(q);
    else
        sp_queue_inspect(q);
    pthread_mutex_unlock(&q->lock);
    return atomic_load(&q->reached);
}

static int how(struct sp_amdgpu_queue *q, uint64_t value)
{
    if (!atomic_load(&q->ledger.nfaults))
        return 0;
    pthread_mutex_lock(&q->lock);
    return (int)leave(q, sp_ledger_tell(&q->ledger, value, atomic_load(&q->submitted)));
}

int sp_amdgpu_wait(struct sp_amdgpu_queue *q, uint64_t value, uint64_t timeout_ns)
{
    if (!usable(q))
        return -ECHILD;
    if (value > atomic_load(&q->submitted))
        return -EINVAL;
    uint64_t start = sp_clock_ns(), deadline = timeout_ns > INT64_MAX - start ? INT64_MAX : start + timeout_ns;
    uint64_t spin = timeout_ns ? start + sp_spin_ns() : 0;
    while (sp_amdgpu_reached(q) < value) {
        uint64_t now = sp_clock_ns();
        if (now >= deadline)
            return -ETIMEDOUT;
        if (now < spin) {
            for (int i = 0; i < 64; i++)
                sp_cpu_relax();
            continue;
        }
        sp_queue_sleep(q, value, deadline - now < SLICE_NS ? deadline : now + SLICE_NS);
        pthread_mutex_lock(&q->lock);
        if (atomic_load(&q->reached) < value)
            sp_queue_inspect(q);
        pthread_mutex_unlock(&q->lock);
    }
    return how(q, value);
}

int sp_amdgpu_times(struct sp_amdgpu_queue *q, uint64_t value, uint64_t *start_ns, uint64_t *end_ns)
{
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->lock);
    return (int)leave(q, sp_ledger_times(&q->ledger, value, start_ns, end_ns));
}

/* The newest value, for what the CPU has done at once; a new one when that submission failed: this did not. */
static int64_t newest(struct sp_amdgpu_queue *q)
{
    uint64_t value = atomic_load(&q->submitted);
    if (atomic_load(&q->ledger.nfaults) && !q->head && sp_ledger_fault(&q->ledger, value)) {
        atomic_store(&q->submitted, ++value);
        atomic_store(&q->reached, value);
    }
    return (int64_t)value;
}

/* The CPU does it where it reaches the memory and nothing is ahead: now, or by way of GTT. */
int64_t sp_amdgpu_upload(struct sp_amdgpu_queue *q, uint64_t address, const void *data, uint64_t nbytes)
{
    void *host;
    struct sp_amdgpu_memory *staging = NULL;
    int64_t rc = enter(q, SP_ANY_EPOCH);
    if (rc)
        return rc;
    if (!sp_amdgpu_find(q->dev, address, nbytes, &host))
        return leave(q, -EFAULT);
    sp_queue_retire(q);
    if (nbytes == 0 || (host && !q->head)) {
        memcpy(nbytes ? host : &host, nbytes ? data : &host, nbytes);
        return leave(q, newest(q));
    }
    rc = sp_amdgpu_alloc(q->dev, nbytes, SP_AMDGPU_HOST, &staging);
    void *to;
    if (rc == 0 && (rc = sp_amdgpu_map(staging, &to)) == 0) {
        memcpy(to, data, nbytes);
        struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = address, .src = staging->va, .count = nbytes};
        rc = enqueue(q, &c, sizeof c, staging, NULL, 0);
    }
    if (rc < 0)
        sp_amdgpu_free(staging);
    return leave(q, rc);
}

int64_t sp_amdgpu_download(struct sp_amdgpu_queue *q, uint64_t address, void *data, uint64_t nbytes)
{
    void *host, *unused;
    struct sp_amdgpu_memory *staging = NULL;
    int64_t rc = enter(q, SP_ANY_EPOCH);
    if (rc)
        return rc;
    const struct sp_amdgpu_memory *m = sp_amdgpu_find(q->dev, address, nbytes, &host);
    if (!m)
        return leave(q, -EFAULT);
    sp_queue_retire(q);
    int slow = q->dev->setup.on_board && m->kind == SP_AMDGPU_DEVICE; /* for the CPU to read */
    if (nbytes == 0 || (host && !slow && !q->head)) {
        if (nbytes)
            memcpy(data, host, nbytes);
        rc = m->kind == SP_AMDGPU_DEVICE ? sp_amdgpu_intact(q->dev) : 0; /* no job that would tell */
        return leave(q, rc ? rc : newest(q));
    }
    rc = sp_amdgpu_alloc(q->dev, nbytes, SP_AMDGPU_HOST, &staging);
    if (rc == 0 && (rc = sp_amdgpu_map(staging, &unused)) == 0) {
        struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = staging->va, .src = address, .count = nbytes};
        rc = enqueue(q, &c, sizeof c, staging, data, nbytes);
    }
    if (rc < 0)
        sp_amdgpu_free(staging);
    return leave(q, rc);
}

int64_t sp_amdgpu_peek(struct sp_amdgpu_queue *q, uint64_t value, void *records, size_t capacity, struct sp_progress *out)
{
    int64_t got = -ENOENT;
    memset(out, 0, sizeof *out);
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->lock);
    sp_queue_retire(q);
    for (struct sp_flight *f = q->head; got < 0 && f; f = f->next) {
        if (f->value != value)
            continue;
        /* Which record of an IB runs is not known: the first stands for the IB. */
        out->running_at = f == q->head ? 0 : f->nbytes;
        out->running_ns = f == q->head ? sp_clock_ns() - f->submitted_ns : 0;
        if (records && f->nbytes)
            memcpy(records, f->records, f->nbytes < capacity ? f->nbytes : capacity);
        got = (int64_t)f->nbytes;
    }
    return leave(q, got);
}
