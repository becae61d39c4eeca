/* Opens and closes a device. The owner thread makes the context while the caller waits. */
#include "open.h"
#include "core/base.h"
#include "dl/egl.h"
#include "egl/device/references.h"
#include "egl/device/request.h"
#include "owner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t START_NS = 60000000000u, END_NS = 10000000000u;

static int start_owner(struct sp_egl *dev)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    sp_egl_hold(dev);
    int rc = -pthread_create(&dev->owner, NULL, sp_egl_owner, dev);
    if (rc)
        sp_egl_let_go(dev);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
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
    struct sp_egl *dev = sp_egl_new(index);
    if (!dev)
        return -ENOMEM;
    rc = start_owner(dev);
    if (rc) {
        sp_egl_let_go(dev);
        return rc;
    }
    uint64_t deadline = sp_clock_ns() + START_NS;
    while (atomic_load(&dev->state) == SP_EGL_STARTING) {
        uint64_t now = sp_clock_ns();
        if (now >= deadline) { /* the driver hangs, so the owner thread and its resources leak */
            pthread_detach(dev->owner);
            snprintf(why, why_nbytes, "the driver made no context within %u s", (unsigned)(START_NS / 1000000000u));
            return -ETIMEDOUT;
        }
        sp_futex_wait(&dev->state, SP_EGL_STARTING, deadline - now);
    }
    if (atomic_load(&dev->state) == SP_EGL_FAILED) {
        rc = dev->start_rc;
        pthread_join(dev->owner, NULL);
        snprintf(why, why_nbytes, "%s", dev->start_why);
        sp_egl_let_go(dev);
        return rc;
    }
    *out = dev;
    return 0;
}

int sp_egl_end(struct sp_egl *dev, uint64_t timeout_ns)
{
    uint32_t state;
    uint64_t deadline = sp_clock_ns() + timeout_ns;
    int first = atomic_exchange(&dev->stop, 1) == 0;
    sp_egl_wake(dev);
    while ((state = atomic_load(&dev->state)) != SP_EGL_GONE) {
        uint64_t now = sp_clock_ns();
        if (now >= deadline) {
            if (first)
                pthread_detach(dev->owner); /* the thread has its own reference to the device */
            return -ETIMEDOUT;
        }
        sp_futex_wait(&dev->state, state, deadline - now);
    }
    if (first)
        pthread_join(dev->owner, NULL);
    return 0;
}

int sp_egl_close(struct sp_egl *dev, uint64_t timeout_ns)
{
    if (!sp_device_usable(&dev->common))
        return -ECHILD;
    pthread_mutex_lock(&dev->lock);
    dev->closing = 1;
    int holders = dev->holders;
    pthread_mutex_unlock(&dev->lock);
    return holders ? 0 : sp_egl_end(dev, timeout_ns);
}

void sp_egl_release(struct sp_egl *dev)
{
    if (!dev || !sp_device_usable(&dev->common))
        return;
    sp_egl_close(dev, 0);
    sp_egl_let_go(dev);
}

void sp_egl_unmap(struct sp_egl *dev)
{
    if (!sp_device_usable(&dev->common))
        return;
    pthread_mutex_lock(&dev->lock);
    int last = --dev->holders == 0 && dev->closing;
    pthread_mutex_unlock(&dev->lock);
    if (last)
        sp_egl_end(dev, END_NS);
}

void sp_egl_describe(const struct sp_egl *dev, struct sp_egl_info *out)
{
    *out = dev->info;
}
