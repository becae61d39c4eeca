/* The owner thread: the only thread in which a device's GL context is current. It takes jobs in
 * their order and issues them in batches with one fence each. It polls the fences and publishes the
 * jobs that have ended. Between batches it runs requests of callers (buffers, programs).
 *
 * The jobs of all queues form one list. So if a job waits for a value of another queue, the job of
 * that value was issued before. */
#define _GNU_SOURCE
#include "owner.h"
#include "core/base.h"
#include "dl/gl.h"
#include "egl/context/clock.h"
#include "egl/context/context.h"
#include "egl/context/fence.h"
#include "egl/context/messages.h"
#include "egl/context/names.h"
#include "egl/device/jobs.h"
#include "egl/device/references.h"
#include "egl/device/request.h"
#include "egl/memory/buffer.h"
#include "egl/memory/pool.h"
#include "egl/run/replay.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_JOBS = 256, NAPS = 5 };
/* a batch is closed when its jobs have taken this many ns to issue */
static const uint64_t BATCH_NS = 1000000;
static const uint64_t HOLD_NS = 10000; /* time in ns that an open batch waits for one more job */
/* limit in ns for one wait on a GL fence; then the owner thread checks for new jobs */
static const uint64_t POLL_NS = 100000;
/* limit in ns for one nap (a short sleep) of the owner thread; it naps if other threads need the
 * core */
static const uint64_t NAP_NS = 200000;
static const uint64_t SLEEP_NS = 1000000000u;

static void fault(struct sp_egl *dev, struct sp_egl_job *job, const char *text)
{
    if (job->rc == 0)
        job->rc = -EIO;
    pthread_mutex_lock(&dev->lock);
    struct sp_egl_fault_text *t = &dev->fault_texts[dev->nfault_texts++ % SP_EGL_FAULT_TEXTS];
    t->q = job->q;
    t->value = job->value;
    snprintf(t->text, sizeof t->text, "%s", text);
    pthread_mutex_unlock(&dev->lock);
}

static void write_stamps(struct sp_egl *dev, struct sp_egl_stamp *s)
{
    while (s) {
        struct sp_egl_stamp *next = s->next;
        uint64_t offset, ns = sp_egl_query_ns(dev, s->query);
        int rc;
        struct sp_egl_buffer *b = sp_egl_find(dev, s->slot, sizeof ns, &offset, &rc);
        void *host = b ? (b->mapping ? b->mapping : atomic_load(&b->shadow)) : NULL;
        if (host)
            memcpy((char *)host + offset, &ns, sizeof ns);
        if (b && !b->mapping)
            sp_egl_write(dev, b, offset, &ns, sizeof ns);
        free(s);
        s = next;
    }
}

static void read_times(struct sp_egl *dev, struct sp_egl_job *job)
{
    if (!job->timed)
        return;
    if (job->start)
        job->start_ns = sp_egl_query_ns(dev, job->start);
    job->end_ns = sp_egl_query_ns(dev, job->end);
}

/* If the GL fence of the oldest batch signals within `timeout_ns`, publishes to the timelines that
 * its jobs have ended, and returns 1. Otherwise returns 0. */
static int poll_oldest(struct sp_egl *dev, uint64_t timeout_ns)
{
    struct sp_egl_batch *batch = &dev->batches[dev->first_batch];
    if (!sp_egl_passed(dev, batch->sync, timeout_ns))
        return 0;
    int lost = sp_egl_context_lost(dev);
    struct sp_egl_job *job = dev->head;
    do {
        job = atomic_load(&job->next);
        if (lost)
            job->rc = -ENODEV;
        read_times(dev, job);
    } while (job != batch->last);
    write_stamps(dev, batch->stamps);
    if (batch->sync)
        sp_glDeleteSync(batch->sync);
    dev->first_batch = (dev->first_batch + 1) % SP_EGL_BATCHES;
    dev->nbatches--;
    for (uint64_t gone = sp_egl_publish(dev, batch->last); gone; gone--)
        sp_egl_let_go(dev); /* never the last reference, because the owner thread has its own */
    return 1;
}

static void close_batch(struct sp_egl *dev)
{
    if (dev->batch_jobs == 0)
        return;
    while (dev->nbatches == SP_EGL_BATCHES)
        poll_oldest(dev, POLL_NS);
    if (dev->dirty) {
        sp_glMemoryBarrier(dev->dirty);
        dev->dirty = 0;
    }
    dev->error[0] = '\0';
    const char *complaint = sp_egl_complaint(dev, 1);
    /* Without debug callbacks it is unknown which job of the batch failed. So the last job reports
     * the error. */
    if (complaint && dev->last_run->rc == 0)
        fault(dev, dev->last_run, complaint);
    struct sp_egl_batch *batch = &dev->batches[(dev->first_batch + dev->nbatches++) % SP_EGL_BATCHES];
    batch->sync = atomic_load(&dev->common.lost) ? NULL : sp_glFenceSync(GL_SYNC_GPU_COMMANDS_COMPLETE, 0);
    batch->last = dev->last_run;
    batch->stamps = dev->stamps;
    dev->stamps = NULL;
    dev->batch_jobs = 0;
}

static int has_work(struct sp_egl *dev)
{
    return atomic_load(&dev->last_run->next) || atomic_load(&dev->has_requests) || atomic_load(&dev->stop);
}

/* Waits 0.1 us between two reads of the last job's `next`. More frequent reads would slow launches,
 * because a caller that launches writes to the same cache line. */
static void pause_briefly(void)
{
    for (int i = 0; i < 4; i++)
        sp_cpu_relax();
}

static uint64_t polite_spin_ns(struct sp_egl *dev)
{
    return sp_spin_for_ns(atomic_load_explicit(&dev->caller_core, memory_order_relaxed));
}

static void rest(struct sp_egl *dev, uint32_t how, uint64_t timeout_ns)
{
    uint32_t seen = atomic_load(&dev->work);
    atomic_store(&dev->rests, how);
    /* No wake-up is lost. The owner thread first writes `rests`, then checks for work; a caller
     * first adds work, then reads `rests`. All these accesses are sequentially consistent. So
     * either the owner thread sees the work, or the caller sees that it must wake the owner
     * thread. */
    if (!has_work(dev) && !(dev->batch_jobs && atomic_load(&dev->waiters)))
        sp_futex_wait(&dev->work, seen, timeout_ns);
    atomic_store(&dev->rests, SP_EGL_AWAKE);
}

/* Returns the next job, or NULL to close the batch. If there is no job yet, it waits a little for
 * one, because larger batches are cheaper. Each batch costs a GL fence, and publishing its end
 * disturbs callers that launch. It does not wait if a caller waits for the batch, or if the batch
 * is a list of commands, which has a fence of its own (`apart`). It spins while it waits, or sleeps
 * briefly if other threads need the core. */
static struct sp_egl_job *next_job(struct sp_egl *dev)
{
    struct sp_egl_job *job = atomic_load_explicit(&dev->last_run->next, memory_order_acquire);
    if (job || dev->batch_jobs == 0 || dev->last_run->apart || atomic_load(&dev->waiters))
        return job;
    if (polite_spin_ns(dev) == 0) {
        rest(dev, SP_EGL_NAPS, NAP_NS);
        return atomic_load_explicit(&dev->last_run->next, memory_order_acquire);
    }
    uint64_t until = sp_clock_ns() + HOLD_NS;
    do {
        for (int i = 0; i < 4; i++) {
            if (has_work(dev) || atomic_load(&dev->waiters))
                return atomic_load_explicit(&dev->last_run->next, memory_order_acquire);
            pause_briefly();
        }
    } while (sp_clock_ns() < until);
    return NULL;
}

/* Issues jobs until the list is empty or the batch is full, then closes the batch. Returns the
 * number of issued jobs. */
static uint32_t run_jobs(struct sp_egl *dev)
{
    uint32_t count = 0;
    struct sp_egl_job *job;
    atomic_store_explicit(&dev->owner_core, sp_core_now(), memory_order_relaxed);
    while ((job = next_job(dev))) {
        uint64_t now = sp_clock_ns();
        if (dev->batch_jobs == 0)
            dev->batch_start_ns = now;
        else if (now - dev->batch_start_ns > BATCH_NS || job->apart || dev->last_run->apart)
            break;
        if (atomic_load_explicit(&dev->common.lost, memory_order_relaxed))
            job->rc = -ENODEV;
        else
            sp_egl_run_job(dev, job, now);
        if (dev->error[0])
            fault(dev, job, dev->error);
        dev->last_run = job;
        count++;
        if (++dev->batch_jobs == MOST_JOBS)
            break;
    }
    close_batch(dev);
    return count;
}

/* Waits for work: spins for a while, then sleeps. If other threads need the core, the owner thread
 * first naps instead of spinning. While it naps, callers that launch one kernel after another need
 * not wake it each time. */
static void idle(struct sp_egl *dev)
{
    uint64_t spin = polite_spin_ns(dev);
    uint64_t until = sp_clock_ns() + spin;
    do {
        for (int i = 0; i < 8; i++) {
            if (has_work(dev))
                return;
            pause_briefly();
        }
    } while (sp_clock_ns() < until);
    for (int i = 0; i < (spin ? 0 : NAPS) && !has_work(dev); i++)
        rest(dev, SP_EGL_NAPS, NAP_NS);
    while (!has_work(dev))
        rest(dev, SP_EGL_SLEEPS, SLEEP_NS);
}

static void serve(struct sp_egl *dev)
{
    for (;;) {
        sp_egl_requests_run(dev);
        uint32_t ran = run_jobs(dev);
        while (dev->nbatches && poll_oldest(dev, ran ? 0 : POLL_NS))
            ;
        if (ran || dev->nbatches)
            continue;
        if (!atomic_load(&dev->stop)) {
            idle(dev);
            continue;
        }
        pthread_mutex_lock(&dev->lock);
        int done = !dev->requests && !atomic_load(&dev->last_run->next);
        if (done)
            atomic_store(&dev->state, SP_EGL_ENDING);
        pthread_mutex_unlock(&dev->lock);
        if (done)
            return;
    }
}

static void tell_state(struct sp_egl *dev, uint32_t state)
{
    atomic_store(&dev->state, state);
    sp_futex_wake(&dev->state, INT32_MAX);
}

/* Sets the scheduling policy SCHED_BATCH, under which a waking thread does not preempt another
 * (sched(7)). Otherwise a caller on a busy machine would lose its core to other processes at each
 * launch. The owner thread calls this after the driver has started its own threads, because those
 * would inherit the policy. */
static void stay_behind(void)
{
    const struct sched_param none = {.sched_priority = 0};
    sched_setscheduler(0, SCHED_BATCH, &none);
}

void *sp_egl_owner(void *arg)
{
    struct sp_egl *dev = arg;
    dev->start_rc = sp_egl_context_make(dev, dev->start_why, sizeof dev->start_why);
    if (dev->start_rc == 0) {
        atomic_fetch_add(&sp_live()->devices, 1);
        stay_behind();
        sp_egl_clock_start(dev);
        tell_state(dev, SP_EGL_RUNS);
        serve(dev);
        sp_egl_await_callers(dev);
        if (dev->zeros)
            sp_glDeleteBuffers(1, &dev->zeros);
        sp_egl_buffers_drop(dev);
        sp_egl_context_drop(dev);
        atomic_fetch_sub(&sp_live()->devices, 1);
    }
    tell_state(dev, dev->start_rc ? SP_EGL_FAILED : SP_EGL_GONE);
    sp_egl_let_go(dev);
    return NULL;
}
