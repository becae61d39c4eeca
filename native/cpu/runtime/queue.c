/* A queue of the cpu device. One lock gives submissions their timeline values, a worker thread runs
 * them in order, and a launch may run inline, in its caller's thread.
 *
 * A launch runs inline if no earlier work is unfinished. Its record belongs to the caller and dies
 * with the call. So `inline_record` is published for sp_cpu_peek and withdrawn after the run. A
 * peek raises `peeking` while it copies the record. A launch that sees `peeking` takes the peek's
 * lock before it returns. Accesses on both sides are sequentially consistent: either the peek sees
 * NULL, or the launch sees the peek. */
#include "device.h"
#include "numa.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Limits of a queue; beyond them submissions wait for room. MOST_JOBS equals SP_TIMES
 * (core/ledger.h). So a queue that keeps times has the times of all its queued submissions. With
 * limits of 256 to 16384 jobs, a thread that submits faster than the device computes had the same
 * speed. MOST_NBYTES counts records and upload bytes; two images of 32 MiB fit. One job may exceed
 * MOST_NBYTES, so that any size is accepted. */
enum { MOST_JOBS = 4096, MOST_NBYTES = 64 << 20 };

static void note(struct sp_cpu_queue *q, uint64_t value, uint64_t start_ns, int rc)
{
    if (!q->common.ledger.times && rc == 0)
        return;
    uint64_t end_ns = sp_clock_ns();
    sp_queue_note(&q->common, value, start_ns, end_ns, rc);
}

/* If `take` is not 0, references each queue that the records wait for, so that the queue lives
 * until the submission has ended. If `take` is 0, drops these references. */
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
                sp_cpu_queue_unref(other);
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
    if (q->dev->confined)
        sp_places_pin_to_all(q->dev->pool.places);
    while ((job = next_job(q))) {
        /* wait for all earlier submissions: a launch may still run in its caller's thread */
        sp_timeline_wait(&q->timeline, job->value - 1, UINT64_MAX, 0);
        uint64_t start_ns = sp_clock_ns();
        int rc = sp_cpu_replay(job->records, job->nbytes, &q->running);
        pthread_mutex_lock(q->common.lock);
        q->current = NULL;
        q->held_nbytes -= job->all_nbytes;
        pthread_mutex_unlock(q->common.lock);
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
    atomic_fetch_add(&q->common.refs, 1);
    int rc = pthread_create(&q->worker, NULL, worker, q);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        atomic_fetch_sub(&q->common.refs, 1);
    q->worker_started = rc == 0;
    return -rc;
}

/* Returns 1 if the queue has MOST_NBYTES bytes or MOST_JOBS jobs, or more. The caller holds the
 * queue's lock. */
static int is_full(struct sp_cpu_queue *q)
{
    return q->held_nbytes >= MOST_NBYTES || sp_queue_newest(&q->common) - sp_timeline_reached(&q->timeline) >= MOST_JOBS;
}

/* Makes a job with a copy of `records`. If `data` is not NULL, the job has a copy of `data` too,
 * and the source address of its first record (a copy command) is set to that copy. Returns NULL if
 * memory is short. */
static struct sp_job *make_job(const void *records, size_t nbytes, const void *data, size_t data_nbytes)
{
    size_t all;
    if (__builtin_add_overflow(sizeof(struct sp_job) + nbytes, data_nbytes, &all))
        return NULL;
    struct sp_job *job = malloc(all);
    if (!job)
        return NULL;
    job->next = NULL;
    job->nbytes = nbytes;
    job->all_nbytes = all;
    if (nbytes)
        memcpy(job->records, records, nbytes);
    if (data_nbytes) {
        memcpy(job->records + nbytes, data, data_nbytes);
        ((struct sp_cmd_copy *)(void *)job->records)->src = (uint64_t)(uintptr_t)(job->records + nbytes);
    }
    return job;
}

/* Appends the job, or frees it on failure. The caller holds the lock. Returns the job's timeline
 * value or -errno. */
static int64_t append(struct sp_cpu_queue *q, struct sp_job *job)
{
    int rc = !job ? -ENOMEM : is_full(q) ? -EAGAIN : q->worker_started ? 0 : start_worker(q);
    if (rc) {
        free(job);
        return rc;
    }
    hold_waited(job->records, job->nbytes, 1);
    q->held_nbytes += job->all_nbytes;
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
    /* The queue records the launch as successful even if rc is an error. The caller gets the error
     * as the result of the launch, so the queue must not report it a second time. */
    note(q, value, start_ns, 0);
    atomic_store_explicit(&q->inline_record, NULL, memory_order_release);
    /* This store is sequentially consistent. So the store of NULL to `inline_record` above comes
     * before the load of `peeking` below. */
    sp_timeline_signal(&q->timeline, value);
    if (atomic_load(&q->peeking)) {
        pthread_mutex_lock(q->common.lock);
        pthread_mutex_unlock(q->common.lock);
    }
    return rc ? rc : (int64_t)value;
}

/* Runs a launch in the calling thread if that is allowed and no earlier work is unfinished, else
 * appends it. The caller has checked the record and called sp_queue_enter. */
static int64_t launch(struct sp_cpu_queue *q, const void *record, size_t nbytes, int may_run_inline)
{
    if (!may_run_inline || sp_timeline_reached(&q->timeline) != atomic_load(&q->common.submitted))
        return sp_queue_leave(&q->common, append(q, make_job(record, nbytes, NULL, 0)));
    uint64_t value = sp_queue_take_value(&q->common);
    atomic_store_explicit(&q->inline_nbytes, nbytes, memory_order_relaxed);
    atomic_store_explicit(&q->inline_record, record, memory_order_release);
    sp_queue_leave(&q->common, 0);
    return run_inline(q, record, value);
}

int64_t sp_cpu_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch)
{
    struct sp_cpu_queue *const q = queue;
    int rc = sp_queue_enter(&q->common, epoch);
    if (rc)
        return rc;
    rc = sp_cpu_check_dispatch(q->dev, record, nbytes);
    return rc ? sp_queue_leave(&q->common, rc) : launch(q, record, nbytes, sp_cpu_runs_inline(record));
}

int64_t sp_cpu_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch)
{
    struct sp_cpu_queue *const q = queue;
    int rc = sp_queue_enter(&q->common, epoch);
    if (rc)
        return rc;
    rc = sp_cpu_check(q->dev, records, nbytes);
    return sp_queue_leave(&q->common, rc ? rc : append(q, make_job(records, nbytes, NULL, 0)));
}

int64_t sp_cpu_upload(struct sp_cpu_queue *q, uint64_t address, const void *data, uint64_t nbytes)
{
    struct sp_cmd_copy copy = {.kind = SP_CMD_COPY, .nbytes = sizeof copy, .dst = address, .count = nbytes};
    int64_t rc = sp_queue_enter(&q->common, SP_ANY_EPOCH);
    if (rc)
        return rc;
    const uint64_t submitted = sp_queue_newest(&q->common);
    const int idle = sp_timeline_reached(&q->timeline) == submitted;
    rc = sp_queue_leave(&q->common, is_full(q) ? -EAGAIN : 0);
    if (rc)
        return rc;
    if (idle) { /* no earlier work on this queue: copy now */
        if (nbytes)
            /* memmove, because `data` may be a part of the same buffer */
            memmove((void *)(uintptr_t)address, data, nbytes);
        return (int64_t)submitted;
    }
    /* make the job before the lock is taken, because copying `data` may take long */
    struct sp_job *job = make_job(&copy, sizeof copy, data, nbytes);
    rc = sp_queue_enter(&q->common, SP_ANY_EPOCH);
    if (rc) {
        free(job);
        return rc;
    }
    return sp_queue_leave(&q->common, append(q, job));
}

int sp_cpu_room(struct sp_cpu_queue *q, uint64_t timeout_ns)
{
    uint64_t reached = sp_timeline_reached(&q->timeline), ahead = sp_queue_newest(&q->common) - reached;
    return sp_timeline_wait(&q->timeline, reached + (ahead + 1) / 2, timeout_ns, 0);
}

static int64_t again(void *queue, const void *record, size_t nbytes, uint64_t epoch)
{
    struct sp_cpu_queue *const q = queue;
    int rc = sp_queue_enter(&q->common, epoch);
    return rc ? rc : launch(q, record, nbytes, sp_cpu_runs_inline(record));
}

int64_t sp_cpu_run(struct sp_prepared *p)
{
    int rc = sp_queue_enter(p->s.queue, p->s.epoch);
    return rc ? rc : launch(p->s.queue, p->record, p->s.nbytes, p->hint);
}

static int check(const void *queue, const void *record, size_t nbytes)
{
    const struct sp_cpu_queue *const q = queue;
    int rc = sp_cpu_check_dispatch(q->dev, record, nbytes);
    return rc ? rc : sp_cpu_runs_inline(record);
}

void sp_cpu_queue_unref(void *queue)
{
    struct sp_cpu_queue *const q = queue;
    struct sp_cpu *dev = q->dev;
    if (atomic_fetch_sub(&q->common.refs, 1) != 1)
        return;
    sp_queue_fini(&q->common);
    free(q);
    sp_cpu_unref(dev);
}

static const struct sp_functions functions = {
    .launch = sp_cpu_launch,
    .again = again,
    .submit = sp_cpu_submit,
    .run = sp_cpu_run,
    .submitted = sp_queue_submitted,
    .reached = sp_cpu_reached,
    .wait = sp_cpu_wait,
    .check = check,
    .unref = sp_cpu_queue_unref,
    .brief = 1,
};

int sp_cpu_queue_open(struct sp_cpu *dev, uint32_t flags, struct sp_cpu_queue **out)
{
    struct sp_cpu_queue *q = calloc(1, sizeof *q);
    if (!q)
        return -ENOMEM;
    q->common = (struct sp_queue){.functions = &functions, .device = &dev->common};
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
        rc = sp_timeline_wait(&q->timeline, sp_queue_newest(&q->common), timeout_ns, 0);
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

uint64_t sp_cpu_reached(void *queue)
{
    struct sp_cpu_queue *const q = queue;
    return sp_timeline_reached(&q->timeline);
}

int sp_cpu_wait(void *queue, uint64_t value, uint64_t timeout_ns)
{
    struct sp_cpu_queue *const q = queue;
    int rc = sp_queue_may_wait(&q->common, value);
    if (rc == 0 && sp_timeline_reached(&q->timeline) < value)
        rc = sp_timeline_wait(&q->timeline, value, timeout_ns, timeout_ns ? sp_spin_ns() : 0);
    return rc ? rc : sp_queue_outcome(&q->common, value);
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
