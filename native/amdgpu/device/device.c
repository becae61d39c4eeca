/* Opening and closing a device, its clock, and what it is when it is lost. */
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char GONE[] = "the card was removed, or its driver unbound";

int sp_amdgpu_ioctl(struct sp_amdgpu *dev, uint32_t request, void *arg)
{
    if (!sp_device_usable(&dev->common))
        return -ECHILD;
    if (dev->fd < 0)
        return -ENODEV;
    atomic_fetch_add_explicit(&dev->ioctls, 1, memory_order_relaxed);
    int rc = dev->ops->ioctl(dev->ops->self, dev->fd, request, arg);
    if (rc == -EINTR || rc == -EAGAIN) /* only who comes again needs to know the time */
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
    sp_amdgpu_lose(dev, "a reset of the GPU has lost what was in its memory; close the device and open it again");
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

static uint64_t scaled(const struct sp_amdgpu *dev, uint64_t ticks)
{
    return (uint64_t)((unsigned __int128)ticks * 1000000u / dev->setup.counter_khz);
}

uint64_t sp_amdgpu_ns(const struct sp_amdgpu *dev, uint64_t ticks)
{
    return scaled(dev, ticks) + (uint64_t)dev->clock_offset_ns;
}

/* The GPU clock beside ours: of a few tries, the one between whose ends the least time passed. */
static void set_clock(struct sp_amdgpu *dev)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; dev->setup.counter_khz && i < 5; i++) {
        uint64_t ticks, before = sp_clock_ns();
        if (sp_amdgpu_info(dev, AMDGPU_INFO_TIMESTAMP, 0, &ticks, sizeof ticks) < 0)
            return;
        uint64_t after = sp_clock_ns();
        if (after - before < best) {
            best = after - before;
            dev->clock_offset_ns = (int64_t)(before + (after - before) / 2 - scaled(dev, ticks));
        }
    }
}

/* Does this kernel take the flag? A page with it is asked for, once. */
static uint32_t takes_flag(struct sp_amdgpu *dev, uint64_t flag)
{
    struct sp_bo *bo;
    if (sp_bo_create(dev, SP_PAGE, AMDGPU_GEM_DOMAIN_GTT, flag, &bo))
        return 0;
    sp_bo_drop(dev, bo);
    return 1;
}

static int sane(const struct sp_amdgpu_setup *s)
{
    const struct sp_amdgpu_packets *all[] = {&s->begin, &s->between, &s->idle};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct sp_amdgpu_packets *p = all[i];
        if (p->ndw > SP_AMDGPU_PACKETS || p->va_at[0] + 1 >= SP_AMDGPU_PACKETS || p->va_at[1] + 1 >= SP_AMDGPU_PACKETS ||
            p->value_at[0] >= SP_AMDGPU_PACKETS || p->value_at[1] >= SP_AMDGPU_PACKETS)
            return 0;
    }
    return (s->gfx == 10 || s->gfx == 11) && s->engines && s->cus;
}

int sp_amdgpu_open(const struct sp_kmd_ops *ops, int fd, const struct sp_amdgpu_setup *setup, struct sp_amdgpu **out)
{
    struct sp_amdgpu *dev = sane(setup) ? calloc(1, sizeof *dev) : NULL;
    int rc = dev ? sp_va_open(setup->va_begin, setup->va_end, setup->va_align, &dev->va)
                 : sane(setup) ? -ENOMEM : -EINVAL;
    if (rc) {
        free(dev);
        ops->close(ops->self, fd);
        return rc;
    }
    dev->ops = ops;
    dev->fd = fd;
    dev->setup = *setup;
    dev->common.fork_generation = sp_fork_generation();
    atomic_store(&dev->refs, 1);
    atomic_store(&dev->users, 1);
    pthread_mutex_init(&dev->lock, NULL);
    atomic_fetch_add(&sp_live()->devices, 1);
    rc = sp_amdgpu_info(dev, AMDGPU_INFO_VRAM_LOST_COUNTER, 0, &dev->vram_lost, sizeof dev->vram_lost);
    if (rc < 0) {
        sp_amdgpu_close(dev);
        return rc;
    }
    dev->always_valid = takes_flag(dev, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID);
    set_clock(dev);
    *out = dev;
    return 0;
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

void sp_amdgpu_close(struct sp_amdgpu *dev)
{
    if (!dev || !sp_device_usable(&dev->common))
        return;
    pthread_mutex_lock(&dev->lock);
    dev->closing = 1;
    pthread_mutex_unlock(&dev->lock);
    sp_amdgpu_pool_empty(dev);
    sp_amdgpu_unuse(dev);
    sp_amdgpu_unref(dev);
}

void sp_amdgpu_counts(struct sp_amdgpu *dev, struct sp_amdgpu_counts *out)
{
    out->submissions = atomic_load(&dev->submissions);
    out->jobs = atomic_load(&dev->jobs);
    out->dma_jobs = atomic_load(&dev->dma_jobs);
    out->ioctls = atomic_load(&dev->ioctls);
    out->ib_ndw = atomic_load(&dev->ib_ndw);
    out->dispatches = atomic_load(&dev->dispatches);
    out->displaced = atomic_load(&dev->displaced);
}
