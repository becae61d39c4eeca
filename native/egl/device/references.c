/* Counts references to a device, and calls that use its buffers. Dropping the last reference frees
 * the device's memory. */
#include "references.h"
#include "core/base.h"
#include "jobs.h"

#include <errno.h>
#include <stdlib.h>

static const uint64_t LOOK_NS = 1000000;

static void release(struct sp_egl *dev)
{
    while (dev->oldest) {
        struct sp_egl_job *next = atomic_load(&dev->oldest->next);
        free(dev->oldest);
        dev->oldest = next;
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

int sp_egl_enter(struct sp_egl *dev)
{
    if (!sp_device_usable(&dev->common))
        return -ECHILD;
    /* Sequentially consistent, as are the owner thread's store of SP_EGL_ENDING and its load of
     * `callers`. So either this call sees the state, or the owner thread sees this call. */
    atomic_fetch_add(&dev->callers, 1);
    if (atomic_load(&dev->state) == SP_EGL_RUNS)
        return 0;
    sp_egl_leave(dev);
    return -ENODEV;
}

void sp_egl_leave(struct sp_egl *dev)
{
    atomic_fetch_sub(&dev->callers, 1);
}

void sp_egl_await_callers(struct sp_egl *dev)
{
    uint32_t callers;
    while ((callers = atomic_load(&dev->callers)))
        sp_futex_wait(&dev->callers, callers, LOOK_NS);
}

int sp_egl_hold_context(struct sp_egl *dev)
{
    pthread_mutex_lock(&dev->lock);
    const int closing = dev->closing;
    dev->holders += !closing;
    pthread_mutex_unlock(&dev->lock);
    return closing ? -ENODEV : 0;
}

struct sp_egl *sp_egl_new(int32_t index)
{
    struct sp_egl *dev = calloc(1, sizeof *dev);
    if (!dev)
        return NULL;
    pthread_mutex_init(&dev->lock, NULL);
    pthread_mutex_init(&dev->log_lock, NULL);
    dev->index = index;
    atomic_store(&dev->refs, 1);
    dev->common.fork_generation = sp_fork_generation();
    /* 8 MiB of zero pages; only the pages in use take memory */
    dev->buffers = calloc(SP_EGL_MAX_BUFFERS, sizeof *dev->buffers);
    dev->head = calloc(1, sizeof *dev->head);
    dev->oldest = dev->tail = dev->last_run = dev->head;
    dev->njobs = 1;
    dev->barriers = 1;
    if (dev->buffers && dev->head)
        return dev;
    release(dev);
    return NULL;
}
