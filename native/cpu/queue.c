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

static void note(struct sp_cpu_queue *q, uint64_t value, uint64_t start_ns, int rc)
{
    if (!q->common.ledger.times && rc == 0)
        return;
    uint64_t end_ns = sp_clock_ns();
    sp_queue_note(&q->common, value, start_ns, end_ns, rc);
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
                atomic_fetch_add(&other->common.refs, 1);
            else
                sp_cpu_queue_unref(&other->common);
        }
        at += head->nbytes;
    }
}

static struct sp_job *next_job(struct sp_cpu_queue *q)
{
    for (;;) {
        uint32_t seen = atomic_load(&q->work);
        pthread_mutex_lock(q->common.lock);
        struct sp_job *job = q->head;
        int closing = atomic_load(&q->common.closing);
        if (job) {
            q->head = job->next;
            if (!q->head)
                q->tail = NULL;
            q->current = job;
            sp_running_begin(&q->running, job->nbytes, sp_clock_ns());
        }
        pthread_mutex_unlock(q->common.lock);
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
        pthread_mutex_lock(q->common.lock);
        q->current = NULL;
        pthread_mutex_unlock(q->common.lock);
        hold_waited(job->records, job->nbytes, 0);
        uint64_t value = job->value;
        free(job);
        note(q, value, start_ns, rc);
        sp_timeline_signal(&q->timeline, value);
    }
    sp_cpu_queue_unref(&q->common);
    return NULL;
}

static int start_worker(struct sp_cpu_queue *q)
{
    sigset_t all, old;
    sp_signals_to_block(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    atomic_fetch_add(&q->common.refs, 1);
    int rc = pthread_create(&q->worker, NULL, worker, q);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        atomic_fetch_sub(&q->common.refs, 1);
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
    job->value = sp_queue_take_value(&q->common);
    if (q->tail)
        q->tail->next = job;
    else
        q->head = job;
    q->tail = job;
    atomic_fetch_add(&q->work, 1);
    if (atomic_load(&q->worker_sleeps))
        sp_futex_wake(&q->work, 1);
    return (int64_t)job->value;
}

static int64_t run_inline(struct sp_cpu_queue *q, const void *record, uint64_t value)
{
    uint64_t start_ns = q->common.ledger.times ? sp_clock_ns() : 0;
    int rc = sp_cpu_dispatch(record, &q->running);
    note(q, value, start_ns, 0); /* a failure is told by the return value, not kept */
    atomic_store_explicit(&q->inline_record, NULL, memory_order_release);
    sp_timeline_signal(&q->timeline, value); /* a sequentially consistent store: the barrier between NULL and `peeking` */
    if (atomic_load(&q->peeking)) {
        pthread_mutex_lock(q->common.lock);
        pthread_mutex_unlock(q->common.lock);
    }
    return rc ? rc : (int64_t)value;
}

/* Entered, and the record is checked: runs it here if it may and nothing is ahead of it, else appends it. */
static int64_t launch(struct sp_cpu_queue *q, const void *record, size_t nbytes, int may_run_inline)
{
    if (!may_run_inline || sp_timeline_reached(&q->timeline) != atomic_load(&q->common.submitted))
        return sp_queue_leave(&q->common, append(q, record, nbytes));
    uint64_t value = sp_queue_take_value(&q->common);
    atomic_store_explicit(&q->inline_nbytes, nbytes, memory_order_relaxed);
    atomic_store_explicit(&q->inline_record, record, memory_order_release);
    sp_queue_leave(&q->common, 0);
    return run_inline(q, record, value);
}

int64_t sp_cpu_launch(struct sp_cpu_queue *q, const void *record, size_t nbytes, uint64_t epoch)
{
    int rc = sp_queue_enter(&q->common, epoch);
    if (rc)
        return rc;
    rc = sp_cpu_check_dispatch(q->dev, record, nbytes);
    return rc ? sp_queue_leave(&q->common, rc) : launch(q, record, nbytes, sp_cpu_runs_inline(record));
}

int64_t sp_cpu_submit(struct sp_cpu_queue *q, const void *records, size_t nbytes, uint64_t epoch)
{
    int rc = sp_queue_enter(&q->common, epoch);
    if (rc)
        return rc;
    rc = sp_cpu_check(q->dev, records, nbytes);
    return sp_queue_leave(&q->common, rc ? rc : append(q, records, nbytes));
}

int sp_cpu_prepare(struct sp_cpu_queue *q, const void *record, size_t nbytes, uint64_t epoch, struct sp_prepared **out)
{
    return sp_prepare(&q->common, record, nbytes, epoch, out);
}

int64_t sp_cpu_run(struct sp_prepared *p)
{
    int rc = sp_queue_enter(p->q, p->epoch);
    return rc ? rc : launch((struct sp_cpu_queue *)p->q, p->record, p->nbytes, p->hint);
}

static int check(const struct sp_queue *common, const void *record, size_t nbytes)
{
    int rc = sp_cpu_check_dispatch(((const struct sp_cpu_queue *)common)->dev, record, nbytes);
    return rc ? rc : sp_cpu_runs_inline(record);
}

void sp_cpu_queue_unref(struct sp_queue *common)
{
    struct sp_cpu *dev = ((struct sp_cpu_queue *)common)->dev;
    if (atomic_fetch_sub(&common->refs, 1) != 1)
        return;
    sp_queue_fini(common);
    free(common);
    sp_cpu_unref(dev);
}

int sp_cpu_queue_open(struct sp_cpu *dev, uint32_t flags, struct sp_cpu_queue **out)
{
    static const struct sp_queue_ops ops = {check, sp_cpu_queue_unref};
    struct sp_cpu_queue *q = calloc(1, sizeof *q);
    if (!q)
        return -ENOMEM;
    q->common = (struct sp_queue){.ops = &ops, .epoch = &dev->epoch, .fork_generation = dev->fork_generation};
    int rc = sp_queue_init(&q->common, flags);
    if (rc) {
        free(q);
        return rc;
    }
    q->dev = dev;
    atomic_fetch_add(&dev->refs, 1);
    *out = q;
    return 0;
}

int sp_cpu_queue_close(struct sp_cpu_queue *q, uint64_t timeout_ns)
{
    int rc = sp_queue_shut(&q->common);
    if (rc == 0)
        rc = sp_timeline_wait(&q->timeline, sp_queue_submitted(&q->common), timeout_ns, 0);
    if (rc)
        return rc;
    pthread_mutex_lock(q->common.lock);
    int join = q->worker_started;
    q->worker_started = 0;
    pthread_mutex_unlock(q->common.lock);
    if (join) {
        atomic_fetch_add(&q->work, 1);
        sp_futex_wake(&q->work, 1);
        pthread_join(q->worker, NULL);
    }
    return 0;
}

void sp_cpu_queue_release(struct sp_cpu_queue *q)
{
    if (q)
        sp_queue_release(&q->common);
}

uint64_t sp_cpu_submitted(struct sp_cpu_queue *q)
{
    return sp_queue_submitted(&q->common);
}

uint64_t sp_cpu_settled(struct sp_cpu_queue *q)
{
    return sp_queue_settled(&q->common);
}

uint64_t sp_cpu_reached(struct sp_cpu_queue *q)
{
    return sp_timeline_reached(&q->timeline);
}

int sp_cpu_wait(struct sp_cpu_queue *q, uint64_t value, uint64_t timeout_ns)
{
    int rc = sp_queue_may_wait(&q->common, value);
    if (rc == 0 && sp_timeline_reached(&q->timeline) < value)
        rc = sp_timeline_wait(&q->timeline, value, timeout_ns, timeout_ns ? sp_spin_ns() : 0);
    return rc ? rc : sp_queue_outcome(&q->common, value);
}

int sp_cpu_times(struct sp_cpu_queue *q, uint64_t value, uint64_t *start_ns, uint64_t *end_ns)
{
    return sp_queue_times(&q->common, value, start_ns, end_ns);
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
    if (!sp_queue_usable(&q->common))
        return -ECHILD;
    pthread_mutex_lock(q->common.lock);
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
    pthread_mutex_unlock(q->common.lock);
    return got;
}
