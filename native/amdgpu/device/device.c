/* The AMD device: its ioctls, its reference counts, and the loss of the card. */
#include "device.h"
#include "core/base.h"
#include "facts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char said[SP_FAULT_TEXT] __attribute__((tls_model("initial-exec")));
static const char GONE[] = "the card was removed, or its driver unbound";

int sp_amdgpu_ioctl(struct sp_amdgpu *dev, uint32_t request, void *arg)
{
    if (!sp_device_usable(&dev->common))
        return -ECHILD;
    if (dev->fd < 0)
        return -ENODEV;
    atomic_fetch_add_explicit(&dev->ioctls, 1, memory_order_relaxed);
    int rc = dev->ops->ioctl(dev->ops->self, dev->fd, request, arg);
    return rc < 0 ? sp_amdgpu_failed(dev, request, arg, rc) : rc;
}

int sp_amdgpu_failed(struct sp_amdgpu *dev, uint32_t request, void *arg, int rc)
{
    if (rc == -EINTR || rc == -EAGAIN) /* only a retry needs the current time */
        rc = sp_kmd_ioctl(dev->ops, dev->fd, request, arg, sp_clock_ns() + SP_IOCTL_NS);
    if (rc == -ENODEV)
        sp_amdgpu_lose(dev, GONE);
    return rc;
}

void sp_amdgpu_lose(struct sp_amdgpu *dev, const char *why)
{
    int was = 0;
    if (atomic_compare_exchange_strong(&dev->common.lost, &was, 1))
        snprintf(dev->why_lost, sizeof dev->why_lost, "%s", why);
}

void sp_amdgpu_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
}

void sp_amdgpu_error_text(char *out, size_t nbytes)
{
    snprintf(out, nbytes, "%s", said);
    said[0] = 0;
}

int sp_amdgpu_intact(struct sp_amdgpu *dev)
{
    uint32_t times;
    int rc = atomic_load(&dev->common.lost) ? -ENODEV
                                     : sp_amdgpu_info(dev, AMDGPU_INFO_VRAM_LOST_COUNTER, 0, &times, sizeof times);
    if (rc == -ENODEV)
        sp_amdgpu_lose(dev, GONE);
    if (rc < 0)
        return rc;
    if (times == dev->vram_lost)
        return 0;
    sp_amdgpu_lose(dev, "a reset of the GPU erased its memory; close the device and open it again");
    return -ENODEV;
}

int sp_amdgpu_lost(struct sp_amdgpu *dev, char *why, size_t nbytes)
{
    int lost = atomic_load(&dev->common.lost);
    snprintf(why, nbytes, "%s", lost ? dev->why_lost : "");
    return lost;
}

int sp_amdgpu_info(struct sp_amdgpu *dev, uint32_t query, uint32_t type, void *out, uint32_t nbytes)
{
    if (!sp_device_usable(&dev->common))
        return -ECHILD;
    if (dev->fd < 0)
        return -ENODEV;
    return sp_amdgpu_info_raw(dev->ops, dev->fd, query, type, out, nbytes);
}

int sp_amdgpu_evictions(struct sp_amdgpu *dev, uint64_t *out)
{
    return sp_amdgpu_info(dev, AMDGPU_INFO_NUM_EVICTIONS, 0, out, sizeof *out);
}

void sp_amdgpu_ref(struct sp_amdgpu *dev)
{
    atomic_fetch_add(&dev->refs, 1);
}

void sp_amdgpu_unref(struct sp_amdgpu *dev)
{
    if (atomic_fetch_sub(&dev->refs, 1) != 1)
        return;
    sp_va_close(dev->va);
    pthread_mutex_destroy(&dev->lock);
    pthread_mutex_destroy(&dev->anchors.lock);
    free(dev->memories);
    free(dev);
    atomic_fetch_sub(&sp_live()->devices, 1);
}

void sp_amdgpu_use(struct sp_amdgpu *dev)
{
    atomic_fetch_add(&dev->users, 1);
}

void sp_amdgpu_unuse(struct sp_amdgpu *dev)
{
    if (atomic_fetch_sub(&dev->users, 1) != 1)
        return;
    dev->ops->close(dev->ops->self, dev->fd);
    dev->fd = -1;
}

static void add(struct sp_amdgpu_counts *out, const struct sp_counted *c)
{
    out->submissions += atomic_load_explicit(&c->submissions, memory_order_relaxed);
    out->jobs += atomic_load_explicit(&c->jobs, memory_order_relaxed);
    out->dma_jobs += atomic_load_explicit(&c->dma_jobs, memory_order_relaxed);
    out->ioctls += atomic_load_explicit(&c->ioctls, memory_order_relaxed);
    out->ib_ndw += atomic_load_explicit(&c->ib_ndw, memory_order_relaxed);
    out->dispatches += atomic_load_explicit(&c->dispatches, memory_order_relaxed);
}

void sp_counted_begin(struct sp_amdgpu *dev, struct sp_counted *c)
{
    pthread_mutex_lock(&dev->lock);
    c->next = dev->counted;
    dev->counted = c;
    pthread_mutex_unlock(&dev->lock);
}

void sp_counted_end(struct sp_amdgpu *dev, struct sp_counted *c)
{
    pthread_mutex_lock(&dev->lock);
    struct sp_counted **at = &dev->counted;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    add(&dev->before, c);
    pthread_mutex_unlock(&dev->lock);
}

void sp_amdgpu_counts(struct sp_amdgpu *dev, struct sp_amdgpu_counts *out)
{
    pthread_mutex_lock(&dev->lock);
    *out = dev->before;
    for (const struct sp_counted *c = dev->counted; c; c = c->next)
        add(out, c);
    pthread_mutex_unlock(&dev->lock);
    out->ioctls += atomic_load(&dev->ioctls);
    out->displaced = atomic_load(&dev->displaced);
    out->code_gtt_nbytes = atomic_load(&dev->code_nbytes[0]);
    out->code_vram_nbytes = atomic_load(&dev->code_nbytes[1]);
    out->staged_nbytes = atomic_load(&dev->staged_nbytes);
    out->direct_nbytes = atomic_load(&dev->direct_nbytes);
}
