/* A queue: values taken under one lock, a worker that replays submissions in order, launches that run in their caller.
 *
 * A launch runs inline when nothing is ahead of it. Its record belongs to the caller and dies when the call returns, so
 * `inline_record` is published for sp_cpu_peek and withdrawn when it has run; a peek that is copying raises `peeking`, and
 * the launch, seeing it, passes through the lock that the peek holds before it returns. Sequentially consistent accesses
 * on both sides: either the peek sees NULL or the launch sees the peek. */
#include "device.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static int usable(const struct sp_cpu_queue *q)
{
    return q->fork_generation == sp_fork_generation();
}

static void note(struct sp_cpu_queue *q, uint64_t value, uint64_t start_ns, int rc)
{
    if (!q->ledger.times && rc == 0)
        return;
    uint64_t end_ns = sp_clock_ns();
    pthread_mutex_lock(&q->lock);
    sp_ledger_note(&q->ledger, value, start_ns, end_ns, rc);
    pthread_mutex_unlock(&q->lock);
}

/* Other queues whose fences a submission waits for stay alive until it has ended. */
static void hold_waited(const void *records, size_t nbytes, int take)
{
    const unsigned char *p = records;
    for (size_t at = 0; at < nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        if (head->kind == SP_CMD_WAIT) {
            struct sp_cpu_queue *other = (void *)(uintptr_t)((const struct sp_cmd_wait *)(const void *)head)->queue;
            if (take)
                atomic_fetch_add(&other->refs, 1);
            else
                sp_cpu_queue_unref(other);
        }
        at += head->nbytes;
    }
}

static struct sp_job *next_job(struct sp_cpu_queue *q)
{
    for (;;) {
        uint32_t seen = atomic_load(&q->work);
        pthread_mutex_lock(&q->lock);
        struct sp_job *job = q->head;
        int closing = q->closing;
        if (job) {
            q->head = job->next;
            if (!q->head)
                q->tail = NULL;
            q->current = job;
            sp_running_begin(&q->running, job->nbytes, sp_clock_ns());
        }
        pthread_mutex_unlock(&q->lock);
        if (job || closing)
            return job;
        uint64_t until = sp_clock_ns() + sp_spin_ns();
        while (atomic_load_explicit(&q->work, memory_order_relaxed) == seen && sp_clock_ns() < until)
            sp_cpu_relax();
        atomic_store(&q->worker_sleeps, 1);
        if (atomic_load(&q->work) == seen)
            sp_futex_wait(&q->work, seen, 1000000000u);
        atomic_store(&q->worker_sleeps, 0);
    }
}

static void *worker(void *arg)
{
    struct sp_cpu_queue *q = arg;
    struct sp_job *job;
    while ((job = next_job(q))) {
        sp_timeline_wait(&q->timeline, job->value - 1, UINT64_MAX, 0); /* a launch may still run in its caller */
        uint64_t start_ns = sp_clock_ns();
        int rc = sp_cpu_replay(job->records, job->nbytes, &q->running);
        pthread_mutex_lock(&q->lock);
        q->current = NULL;
        pthread_mutex_unlock(&q->lock);
        hold_waited(job->records, job->nbytes, 0);
        uint64_t value = job->value;
        free(job);
        note(q, value, start_ns, rc);
        sp_timeline_signal(&q->timeline, value);
    }
    sp_cpu_queue_unref(q);
    return NULL;
}

static int start_worker(struct sp_cpu_queue *q)
{
    sigset_t all, old;
    sp_signals_to_block(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    atomic_fetch_add(&q->refs, 1);
    int rc = pthread_create(&q->worker, NULL, worker, q);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        atomic_fetch_sub(&q->refs, 1);
    q->worker_started = rc == 0;
    return -rc;
}

/* With the lock held: a job at the end of the queue. */
static int64_t append(struct sp_cpu_queue *q, const void *records, size_t nbytes)
{
    struct sp_job *job = malloc(sizeof *job + nbytes);
    if (!job)
        return -ENOMEM;
    if (!q->worker_started) {
        int rc = start_worker(q);
        if (rc) {
            free(job);
            return rc;
        }
    }
    job->next = NULL;
    job->nbytes = nbytes;
    if (nbytes)
        memcpy(job->records, records, nbytes);
    hold_waited(job->records, nbytes, 1);
    uint64_t value = atomic_load(&q->submitted) + 1;
    job->value = value;
    atomic_store(&q->submitted, value);
    if (q->tail)
        q->tail->next = job;
    else
        q->head = job;
    q->tail = job;
    atomic_fetch_add(&q->work, 1);
    if (atomic_load(&q->worker_sleeps))
        sp_futex_wake(&q->work, 1);
    return (int64_t)value;
}

/* 0 when records packed in `epoch` may be looked at. The lock is what closers pass through (sp_cpu_settled): once they
 * have advanced the epoch, whoever held the lock before has its value, and whoever takes it later sees the epoch. */
static int enter(struct sp_cpu_queue *q, uint64_t epoch)
{
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->lock);
    int stale = epoch != SP_ANY_EPOCH && atomic_load(&q->dev->epoch) != epoch;
    int rc = q->closing ? -ESHUTDOWN : stale ? -ESTALE : 0;
    if (rc)
        pthread_mutex_unlock(&q->lock);
    return rc;
}

static int64_t leave(struct sp_cpu_queue *q, int64_t rc)
{
    pthread_mutex_unlock(&q->lock);
    return rc;
}

static int64_t run_inline(struct sp_cpu_queue *q, const void *record, uint64_t value)
{
    uint64_t start_ns = q->ledger.times ? sp_clock_ns() : 0;
    int rc = sp_cpu_dispatch(record, &q->running);
    note(q, value, start_ns, 0); /* a failure is told by the return value, not kept */
    atomic_store_explicit(&q->inline_record, NULL, memory_order_release);
    sp_timeline_signal(&q->timeline, value); /* a sequentially consistent store: the barrier between NULL and `peeking` */
    if (atomic_load(&q->peeking)) {
        pthread_mutex_lock(&q->lock);
        pthread_mutex_unlock(&q->lock);
    }
    return rc ? rc : (int64_t)value;
}

/* Entered, and the record is checked: runs it here if it may and nothing is ahead of it, else appends it. */
static int64_t launch(struct sp_cpu_queue *q, const void *record, size_t nbytes, int may_run_inline)
{
    uint64_t submitted = atomic_load_explicit(&q->submitted, memory_order_relaxed);
    if (!may_run_inline || sp_timeline_reached(&q->timeline) != submitted)
        return leave(q, append(q, record, nbytes));
    atomic_store_explicit(&q->submitted, submitted + 1, memory_order_relaxed);
    atomic_store_explicit(&q->inline_nbytes, nbytes, memory_order_relaxed);
    atomic_store_explicit(&q->inline_record, record, memory_order_release);
    leave(q, 0);
    return run_inline(q, record, submitted + 1);
}

int64_t sp_cpu_launch(struct sp_cpu_queue *q, const void *record, size_t nbytes, uint64_t epoch)
{
    int rc = enter(q, epoch);
    if (rc)
        return rc;
    rc = sp_cpu_check_dispatch(q->dev, record, nbytes);
    return rc ? leave(q, rc) : launch(q, record, nbytes, sp_cpu_runs_inline(record));
}

int64_t sp_cpu_submit(struct sp_cpu_queue *q, const void *records, size_t nbytes, uint64_t epoch)
{
    int rc = enter(q, epoch);
    if (rc)
        return rc;
    rc = sp_cpu_check(q->dev, records, nbytes);
    return leave(q, rc ? rc : append(q, records, nbytes));
}

uint64_t sp_cpu_settled(struct sp_cpu_queue *q)
{
    if (!usable(q))
        return atomic_load(&q->submitted);
    pthread_mutex_lock(&q->lock);
    uint64_t submitted = atomic_load(&q->submitted);
    pthread_mutex_unlock(&q->lock);
    return submitted;
}

struct sp_cpu_prepared {
    struct sp_cpu_queue *q;
    size_t nbytes;
    uint64_t epoch;
    int runs_inline;
    _Alignas(16) unsigned char record[];
};

int sp_cpu_prepare(struct sp_cpu_queue *q, const void *record, size_t nbytes, uint64_t epoch,
                   struct sp_cpu_prepared **out)
{
    int rc = enter(q, epoch);
    if (rc)
        return rc;
    rc = sp_cpu_check_dispatch(q->dev, record, nbytes);
    struct sp_cpu_prepared *p = rc ? NULL : malloc(sizeof *p + nbytes);
    if (!p)
        return (int)leave(q, rc ? rc : -ENOMEM);
    p->runs_inline = sp_cpu_runs_inline(record);
    leave(q, 0);
    p->q = q;
    p->nbytes = nbytes;
    p->epoch = epoch;
    memcpy(p->record, record, nbytes);
    atomic_fetch_add(&q->refs, 1);
    *out = p;
    return 0;
}

int64_t sp_cpu_run(struct sp_cpu_prepared *p)
{
    int rc = enter(p->q, p->epoch);
    return rc ? rc : launch(p->q, p->record, p->nbytes, p->runs_inline);
}

void sp_cpu_unprepare(struct sp_cpu_prepared *p)
{
    if (!p)
        return;
    if (usable(p->q))
        sp_cpu_queue_unref(p->q);
    free(p);
}

int sp_cpu_queue_open(struct sp_cpu *dev, uint32_t flags, struct sp_cpu_queue **out)
{
    if (dev->fork_generation != sp_fork_generation())
        return -ECHILD;
    if (flags & ~(uint32_t)SP_QUEUE_TIMING)
        return -EINVAL;
    struct sp_cpu_queue *q = calloc(1, sizeof *q);
    if (!q)
        return -ENOMEM;
    if (sp_ledger_init(&q->ledger, (flags & SP_QUEUE_TIMING) != 0)) {
        free(q);
        return -ENOMEM;
    }
    pthread_mutex_init(&q->lock, NULL);
    q->dev = dev;
    q->fork_generation = dev->fork_generation;
    atomic_store(&q->refs, 1);
    atomic_fetch_add(&dev->refs, 1);
    atomic_fetch_add(&sp_live()->queues, 1);
    *out = q;
    return 0;
}

void sp_cpu_queue_unref(struct sp_cpu_queue *q)
{
    if (atomic_fetch_sub(&q->refs, 1) != 1)
        return;
    struct sp_cpu *dev = q->dev;
    pthread_mutex_destroy(&q->lock);
    sp_ledger_free(&q->ledger);
    free(q);
    sp_cpu_unref(dev);
    atomic_fetch_sub(&sp_live()->queues, 1);
}

int sp_cpu_queue_close(struct sp_cpu_queue *q, uint64_t timeout_ns)
{
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->lock);
    q->closing = 1;
    pthread_mutex_unlock(&q->lock);
    int rc = sp_timeline_wait(&q->timeline, atomic_load(&q->submitted), timeout_ns, 0);
    if (rc)
        return rc;
    pthread_mutex_lock(&q->lock);
    int join = q->worker_started;
    q->worker_started = 0;
    pthread_mutex_unlock(&q->lock);
    if (join) {
        atomic_fetch_add(&q->work, 1);
        sp_futex_wake(&q->work, 1);
        pthread_join(q->worker, NULL);
    }
    return 0;
}

void sp_cpu_queue_release(struct sp_cpu_queue *q)
{
    if (q && usable(q))
        sp_cpu_queue_unref(q);
}

uint64_t sp_cpu_submitted(struct sp_cpu_queue *q)
{
    return atomic_load(&q->submitted);
}

uint64_t sp_cpu_reached(struct sp_cpu_queue *q)
{
    return sp_timeline_reached(&q->timeline);
}

int sp_cpu_wait(struct sp_cpu_queue *q, uint64_t value, uint64_t timeout_ns)
{
    if (!usable(q))
        return -ECHILD;
    if (value > atomic_load(&q->submitted))
        return -EINVAL;
    int rc = 0;
    if (sp_timeline_reached(&q->timeline) < value)
        rc = sp_timeline_wait(&q->timeline, value, timeout_ns, timeout_ns ? sp_spin_ns() : 0);
    if (rc || !atomic_load(&q->ledger.nfaults))
        return rc;
    pthread_mutex_lock(&q->lock);
    rc = sp_ledger_tell(&q->ledger, value, atomic_load(&q->submitted));
    pthread_mutex_unlock(&q->lock);
    return rc;
}

int sp_cpu_times(struct sp_cpu_queue *q, uint64_t value, uint64_t *start_ns, uint64_t *end_ns)
{
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->lock);
    int rc = sp_ledger_times(&q->ledger, value, start_ns, end_ns);
    pthread_mutex_unlock(&q->lock);
    return rc;
}

static int64_t copy_out(const void *records, size_t nbytes, void *out, size_t capacity)
{
    if (records && out && nbytes)
        memcpy(out, records, nbytes < capacity ? nbytes : capacity);
    return (int64_t)nbytes;
}

int64_t sp_cpu_peek(struct sp_cpu_queue *q, uint64_t value, void *records, size_t capacity, struct sp_progress *out)
{
    int64_t got = -ENOENT;
    memset(out, 0, sizeof *out);
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->lock);
    atomic_store(&q->peeking, 1);
    const void *running = atomic_load(&q->inline_record);
    if (running && value == sp_timeline_reached(&q->timeline) + 1) {
        out->groups_total = atomic_load(&q->running.groups_total);
        out->groups_done = atomic_load(&q->running.groups_done);
        got = copy_out(running, atomic_load(&q->inline_nbytes), records, capacity);
    }
    atomic_store(&q->peeking, 0);
    struct sp_job *first = q->current ? q->current : q->head;
    for (struct sp_job *job = first; got < 0 && job; job = job == q->current ? q->head : job->next) {
        if (job->value != value)
            continue;
        out->running_at = job->nbytes;
        if (job == q->current)
            sp_running_tell(&q->running, out);
        got = copy_out(job->records, job->nbytes, records, capacity);
    }
    pthread_mutex_unlock(&q->lock);
    return got;
}
