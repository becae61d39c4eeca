/* Opening and closing: the owner thread makes the context, and this waits until it has. */
#include "device.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t START_NS = 60000000000u;

static void release(struct sp_egl *dev)
{
    while (dev->head) {
        struct sp_egl_job *next = atomic_load(&dev->head->next);
        free(dev->head);
        dev->head = next;
    }
    while (dev->idle_jobs) {
        struct sp_egl_job *next = atomic_load(&dev->idle_jobs->next);
        free(dev->idle_jobs);
        dev->idle_jobs = next;
    }
    pthread_mutex_destroy(&dev->lock);
    pthread_mutex_destroy(&dev->log_lock);
    free(dev->idle_queries);
    free(dev->buffers);
    free(dev);
}

void sp_egl_hold(struct sp_egl *dev)
{
    atomic_fetch_add(&dev->refs, 1);
}

void sp_egl_let_go(struct sp_egl *dev)
{
    if (atomic_fetch_sub(&dev->refs, 1) == 1)
        release(dev);
}

static struct sp_egl *prepare(int32_t index)
{
    struct sp_egl *dev = calloc(1, sizeof *dev);
    if (!dev)
        return NULL;
    pthread_mutex_init(&dev->lock, NULL);
    pthread_mutex_init(&dev->log_lock, NULL);
    dev->index = index;
    atomic_store(&dev->refs, 1);
    dev->fork_generation = sp_fork_generation();
    dev->buffers = calloc(SP_EGL_MAX_BUFFERS, sizeof *dev->buffers); /* 8 MiB of zero pages, used as far as needed */
    dev->head = calloc(1, sizeof *dev->head);
    dev->tail = dev->last_run = dev->head;
    if (dev->buffers && dev->head)
        return dev;
    release(dev);
    return NULL;
}

int sp_egl_open(int32_t index, char *why, size_t why_nbytes, struct sp_egl **out)
{
    char report[2048], path[256];
    struct sp_text text = sp_text_in(report, sizeof report);
    int rc = sp_egl_library(NULL, &text, path, sizeof path);
    if (rc) {
        snprintf(why, why_nbytes, "%s", report);
        return rc;
    }
    struct sp_egl *dev = prepare(index);
    if (!dev)
        return -ENOMEM;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    rc = -pthread_create(&dev->owner, NULL, sp_egl_owner, dev);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        release(dev);
        return rc;
    }
    uint64_t deadline = sp_clock_ns() + START_NS;
    while (atomic_load(&dev->state) == 0) {
        uint64_t now = sp_clock_ns();
        if (now >= deadline) { /* the driver hangs: the thread and what it holds stay behind */
            pthread_detach(dev->owner);
            snprintf(why, why_nbytes, "the driver made no context within %u s", (unsigned)(START_NS / 1000000000u));
            return -ETIMEDOUT;
        }
        sp_futex_wait(&dev->state, 0, deadline - now);
    }
    if (atomic_load(&dev->state) == 2) {
        pthread_join(dev->owner, NULL);
        rc = dev->start_rc;
        snprintf(why, why_nbytes, "%s", dev->start_why);
        release(dev);
        return rc;
    }
    atomic_fetch_add(&sp_live()->devices, 1);
    *out = dev;
    return 0;
}

int sp_egl_close(struct sp_egl *dev, uint64_t timeout_ns)
{
    if (dev->fork_generation != sp_fork_generation())
        return -ECHILD;
    pthread_mutex_lock(&dev->lock);
    int queues = dev->queues;
    pthread_mutex_unlock(&dev->lock);
    if (queues)
        return -EBUSY;
    atomic_store(&dev->stop, 1);
    sp_egl_wake(dev);
    uint64_t deadline = sp_clock_ns() + timeout_ns;
    uint32_t state;
    while ((state = atomic_load(&dev->state)) != 3) {
        uint64_t now = sp_clock_ns();
        if (now >= deadline)
            return -ETIMEDOUT;
        sp_futex_wait(&dev->state, state, deadline - now < 10000000u ? deadline - now : 10000000u);
    }
    pthread_join(dev->owner, NULL);
    sp_egl_let_go(dev);
    atomic_fetch_sub(&sp_live()->devices, 1);
    return 0;
}

void sp_egl_describe(const struct sp_egl *dev, struct sp_egl_info *out)
{
    *out = dev->info;
}
