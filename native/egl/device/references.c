/* Counts references to a device. Dropping the last reference frees the device's memory. */
#include "references.h"
#include "core/base.h"
#include "jobs.h"

#include <stdlib.h>

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
