/* Requests of callers: a list of functions that the owner thread runs between batches. */
#include "request.h"
#include "core/base.h"

#include <errno.h>
#include <stdlib.h>

/* Wakes the owner thread if it sleeps. If several callers find the owner thread asleep, only the
 * first of them wakes it. */
static void wake(struct sp_egl *dev)
{
    if (atomic_exchange(&dev->rests, SP_EGL_AWAKE) == SP_EGL_AWAKE)
        return;
    atomic_fetch_add(&dev->work, 1);
    sp_futex_wake(&dev->work, 1);
}

void sp_egl_wake(struct sp_egl *dev)
{
    if (atomic_load(&dev->rests) != SP_EGL_AWAKE)
        wake(dev);
}

void sp_egl_wake_sleeper(struct sp_egl *dev)
{
    if (atomic_load(&dev->rests) == SP_EGL_SLEEPS)
        wake(dev);
}

/* Values of a request's `fate`. The owner thread changes WAITED to DONE. A caller that gives up
 * changes WAITED to ABANDONED. */
enum { WAITED = 0, DONE = 1, ABANDONED = 2 };

static void let_go(struct sp_egl_request *r)
{
    if (atomic_fetch_sub(&r->holders, 1) == 1)
        free(r);
}

int sp_egl_request_keep(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns)
{
    atomic_store(&r->holders, 2);
    pthread_mutex_lock(&dev->lock);
    if (atomic_load(&dev->state) != SP_EGL_RUNS) {
        pthread_mutex_unlock(&dev->lock);
        atomic_store(&r->holders, 1);
        return -ENODEV;
    }
    if (dev->last_request)
        dev->last_request->next = r;
    else
        dev->requests = r;
    dev->last_request = r;
    atomic_store(&dev->has_requests, 1);
    pthread_mutex_unlock(&dev->lock);
    sp_egl_wake(dev);
    uint64_t deadline = sp_clock_ns() + timeout_ns;
    while (atomic_load(&r->fate) == WAITED) {
        uint64_t now = sp_clock_ns();
        uint32_t waited = WAITED;
        if (now < deadline)
            sp_futex_wait(&r->fate, WAITED, deadline - now);
        else if (atomic_compare_exchange_strong(&r->fate, &waited, ABANDONED))
            return -ETIMEDOUT;
    }
    return r->rc;
}

void sp_egl_request_end(struct sp_egl_request *r)
{
    let_go(r);
}

int sp_egl_request(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns)
{
    int rc = sp_egl_request_keep(dev, r, timeout_ns);
    let_go(r);
    return rc;
}

void sp_egl_requests_run(struct sp_egl *dev)
{
    while (atomic_load_explicit(&dev->has_requests, memory_order_acquire)) {
        pthread_mutex_lock(&dev->lock);
        struct sp_egl_request *r = dev->requests;
        dev->requests = r->next;
        if (!dev->requests) {
            dev->last_request = NULL;
            atomic_store(&dev->has_requests, 0);
        }
        pthread_mutex_unlock(&dev->lock);
        uint32_t waited = WAITED;
        r->rc = r->run(dev, r);
        if (atomic_compare_exchange_strong(&r->fate, &waited, DONE))
            sp_futex_wake(&r->fate, 1);
        else if (r->drop)
            r->drop(dev, r);
        let_go(r);
    }
}
