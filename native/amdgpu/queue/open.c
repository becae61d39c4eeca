/* Opens and closes an AMD device. */
#include "amdgpu/device/anchor.h"
#include "amdgpu/device/device.h"
#include "amdgpu/memory/bo.h"
#include "amdgpu/memory/memory.h"
#include "core/base.h"
#include "gen/pm4_packets.h"

#include <errno.h>
#include <stdlib.h>

/* Returns 1 if the kernel driver accepts `flag` for a new BO. Creates a BO of one page with the
 * flag, and drops it again. */
static uint32_t takes_flag(struct sp_amdgpu *dev, uint64_t flag)
{
    struct sp_bo *bo;
    int rc = sp_bo_create(dev, SP_PAGE, AMDGPU_GEM_DOMAIN_GTT, flag, &bo);
    if (rc == -ENOMEM) /* try again: -ENOMEM does not show whether the driver accepts `flag` */
        rc = sp_bo_create(dev, SP_PAGE, AMDGPU_GEM_DOMAIN_GTT, flag, &bo);
    if (rc)
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
    /* submit/job.c patches the first packet of an IB (sp_caches_put), so that packet must be
     * ACQUIRE_MEM. */
    if (sp_get(s->begin.dwords, PM4_HEADER_OPCODE) != PM4_ACQUIRE_MEM)
        return 0;
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
    atomic_store(&dev->list_turn, 1);
    atomic_store(&dev->written, 1);
    atomic_store(&dev->code_turn, 1);
    dev->common.fork_generation = sp_fork_generation();
    atomic_store(&dev->refs, 1);
    atomic_store(&dev->users, 1);
    pthread_mutex_init(&dev->lock, NULL);
    pthread_mutex_init(&dev->anchors.lock, NULL);
    atomic_fetch_add(&sp_live()->devices, 1);
    rc = sp_amdgpu_info(dev, AMDGPU_INFO_VRAM_LOST_COUNTER, 0, &dev->vram_lost, sizeof dev->vram_lost);
    if (rc < 0) {
        sp_amdgpu_close(dev);
        return rc;
    }
    dev->always_valid = takes_flag(dev, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID);
    if (setup->counter_khz)
        sp_anchor_renew(dev);
    *out = dev;
    return 0;
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
