/* The one list of jobs of an egl device: callers append jobs, the owner runs them, and finished
 * jobs are recycled.
 *
 * Jobs from `oldest` up to `head` are finished. `head` is the last published job, so that the list
 * is never empty. Jobs in flight follow, up to `tail`. The owner follows `next` without the lock;
 * appending and publishing take the lock. */
#include "jobs.h"
#include "core/base.h"

#include <errno.h>
#include <stdlib.h>

enum {
    JOB_NBYTES = 512, /* a recycled job has room for records of this size */
    MOST_ENQUEUED = 16384,
    MOST_SPARE = 1024, /* most jobs kept for reuse */
    TRIES = 100
};
static const uint64_t FLOOD_NS = 100000000; /* core then checks for Ctrl-C, and calls again */

int sp_egl_jobs_room(struct sp_egl *dev)
{
    uint64_t ahead = atomic_load_explicit(&dev->enqueued, memory_order_relaxed); /* a memory bound, not exact */
    return ahead > MOST_ENQUEUED ? sp_timeline_wait(&dev->published, ahead - MOST_ENQUEUED, FLOOD_NS, 0) : 0;
}

/* Launches hold the lock for 0.1 us. A few tries cost less than a sleep, and less than a launch
 * that must wake the owner. */
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
        if (next && next->q == q)
            continue; /* one signal per group of finished jobs: a waiter is woken once */
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

/* Caller locks. Removes and returns the oldest finished job; NULL: none. */
static struct sp_egl_job *used_job(struct sp_egl *dev)
{
    struct sp_egl_job *job = dev->oldest;
    if (job == dev->head)
        return NULL;
    dev->oldest = atomic_load_explicit(&job->next, memory_order_relaxed);
    dev->njobs--;
    return job;
}

/* Prefetch: the next launch writes to this job, which the owner's core read last. */
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
    /* after a flood, shrink to few jobs, step by step */
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
    atomic_store(&dev->tail->next, job); /* sequentially consistent, as the owner's steps before it sleeps */
    dev->tail = job;
    atomic_store_explicit(&dev->caller_core, sp_core_now(), memory_order_relaxed);
    fetch_next_job(dev);
}
