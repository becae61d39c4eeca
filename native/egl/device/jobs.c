/* The list of all jobs of an egl device. Callers append jobs, the owner thread runs them, and
 * finished jobs are reused.
 *
 * The jobs from `oldest` to `head` are finished, and their end is published (their queues have
 * reached their values). `head` is the newest of them and stays in the list, so that the list is
 * never empty. The jobs in flight follow, up to `tail`. The owner thread follows `next` without the
 * lock. Appending a job and publishing the end of jobs take the lock. */
#include "jobs.h"
#include "core/base.h"

#include <errno.h>
#include <stdlib.h>

enum {
    JOB_NBYTES = 512, /* bytes of records for which a reused job has room */
    MOST_ENQUEUED = 16384,
    MOST_SPARE = 1024, /* most finished jobs that are kept for reuse */
    TRIES = 100
};
/* Longest time in ns that one call waits while too many jobs are in flight. The caller in
 * native/core then checks for Ctrl-C and calls again. */
static const uint64_t FLOOD_NS = 100000000;

int sp_egl_jobs_room(struct sp_egl *dev)
{
    /* A relaxed read may return an older count. That does no harm: the limit on jobs in flight only
     * bounds memory and need not be exact. */
    uint64_t ahead = atomic_load_explicit(&dev->enqueued, memory_order_relaxed);
    return ahead > MOST_ENQUEUED ? sp_timeline_wait(&dev->published, ahead - MOST_ENQUEUED, FLOOD_NS, 0) : 0;
}

/* Takes the device's lock without sleeping if possible. A launching thread holds the lock for 0.1
 * us only, so a few tries cost less than a sleep. If the owner thread slept, the launching thread
 * would have to wake it, which costs more too. */
static void lock_soon(struct sp_egl *dev)
{
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(&dev->lock) == 0)
            return;
        sp_cpu_relax();
    }
    pthread_mutex_lock(&dev->lock);
}

int sp_egl_queue_gone(struct sp_egl_queue *q)
{
    if (atomic_load(&q->common.refs) || sp_timeline_reached(&q->timeline) != sp_queue_newest(&q->common))
        return 0;
    sp_queue_fini(&q->common);
    free(q);
    return 1;
}

uint64_t sp_egl_publish(struct sp_egl *dev, struct sp_egl_job *last)
{
    uint64_t count = 0, gone = 0;
    struct sp_egl_job *job = dev->head, *next = atomic_load(&job->next);
    lock_soon(dev);
    do {
        job = next;
        next = job == last ? NULL : atomic_load(&job->next);
        struct sp_egl_queue *q = job->q;
        if (q->common.ledger.times || job->rc)
            sp_ledger_note(&q->common.ledger, job->value, job->start_ns, job->end_ns, job->rc);
        count++;
        /* If consecutive jobs have the same queue, only the last of them signals the timeline. So a
         * waiting thread wakes once, not after each job. */
        if (next && next->q == q)
            continue;
        sp_timeline_signal(&q->timeline, job->value);
        gone += (uint64_t)sp_egl_queue_gone(q);
    } while (next);
    dev->head = last;
    if (atomic_load_explicit(&dev->issued, memory_order_relaxed) == last)
        atomic_store_explicit(&dev->issued, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&dev->lock);
    sp_timeline_signal(&dev->published, sp_timeline_reached(&dev->published) + count);
    return gone;
}

/* Removes the oldest finished job from the list and returns it, or NULL if there is none. The
 * caller holds the device's lock. */
static struct sp_egl_job *used_job(struct sp_egl *dev)
{
    struct sp_egl_job *job = dev->oldest;
    if (job == dev->head)
        return NULL;
    dev->oldest = atomic_load_explicit(&job->next, memory_order_relaxed);
    dev->njobs--;
    return job;
}

/* Prefetches the job that the next launch will write to, because its cache lines are probably in
 * the owner thread's core. */
static void fetch_next_job(const struct sp_egl *dev)
{
    const char *at = (const char *)dev->oldest;
    if (dev->oldest != dev->head)
        for (int i = 0; i < 4; i++)
            __builtin_prefetch(at + SP_EGL_APART * i, 1);
}

struct sp_egl_job *sp_egl_job_take(struct sp_egl *dev, size_t nbytes)
{
    size_t capacity = nbytes <= JOB_NBYTES ? JOB_NBYTES : nbytes;
    struct sp_egl_job *job = used_job(dev);
    /* After a flood of launches many finished jobs are in the list. Each call of this function
     * frees one of them, until MOST_SPARE are left. */
    if (job && dev->njobs > MOST_SPARE && dev->oldest != dev->head) {
        free(job);
        job = used_job(dev);
    }
    if (job && job->capacity != capacity) {
        free(job);
        job = NULL;
    }
    if (!job) {
        job = malloc(sizeof *job + capacity);
        if (!job)
            return NULL;
        job->capacity = capacity;
    }
    dev->njobs++;
    atomic_store_explicit(&job->next, NULL, memory_order_relaxed);
    job->rc = 0;
    job->start = job->end = 0;
    job->start_ns = job->end_ns = 0;
    return job;
}

void sp_egl_job_append(struct sp_egl *dev, struct sp_egl_job *job)
{
    atomic_store_explicit(&dev->enqueued, atomic_load_explicit(&dev->enqueued, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    /* Sequentially consistent, as are the owner thread's checks before it sleeps, so that the owner
     * thread misses no job. */
    atomic_store(&dev->tail->next, job);
    dev->tail = job;
    atomic_store_explicit(&dev->caller_core, sp_core_now(), memory_order_relaxed);
    fetch_next_job(dev);
}
