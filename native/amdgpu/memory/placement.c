/* Which heap memory goes to.
 *
 * A card fetches code anew in each submission, since every IB begins with empty caches: from its own memory, where the CPU can
 * write the code there. The kernel empties the HDP between such writes and an IB (docs/AMDGPU_FACTS.md 6.1). An APU's VRAM is a
 * part of the same DRAM that GTT is in, which the CPU reads slowly; where it is the smaller part, it is left to the display. */
#include "placement.h"

#include <errno.h>
#include <string.h>

static int is_code(uint32_t kind)
{
    return kind == SP_AMDGPU_CODE || kind == SP_AMDGPU_CODE_AND_DATA;
}

static uint32_t wanted(const struct sp_amdgpu_setup *s, const struct sp_amdgpu_memory *m)
{
    int vram = m->kind == SP_AMDGPU_DEVICE ? s->on_board || s->vram_nbytes >= s->gtt_nbytes
                                           : is_code(m->kind) && s->on_board && m->nbytes <= s->visible_nbytes;
    return vram ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT;
}

/* What has become of a BO that was to be in VRAM. Where there was no room, the kernel takes away that the CPU reaches it, then
 * adds GTT to its domains (amdgpu_gem_create_ioctl), which GEM_OP tells. Unknown counts as done as asked. */
static struct drm_amdgpu_gem_create_in made(struct sp_amdgpu *dev, const struct sp_bo *bo, uint64_t flags)
{
    struct drm_amdgpu_gem_create_in info;
    struct drm_amdgpu_gem_op args = {
        .handle = bo->handle, .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, .value = (uint64_t)(uintptr_t)&info};
    memset(&info, 0, sizeof info);
    if (sp_amdgpu_ioctl(dev, DRM_IOCTL_AMDGPU_GEM_OP, &args) < 0)
        info = (struct drm_amdgpu_gem_create_in){.domains = AMDGPU_GEM_DOMAIN_VRAM, .domain_flags = flags};
    return info;
}

static int make(struct sp_amdgpu *dev, uint32_t domain, uint64_t flags, struct sp_amdgpu_memory *m)
{
    const struct sp_amdgpu_setup *s = &dev->setup;
    m->domain = domain;
    m->cpu = domain == AMDGPU_GEM_DOMAIN_GTT || is_code(m->kind) || s->visible_nbytes >= s->vram_nbytes;
    if (domain == AMDGPU_GEM_DOMAIN_GTT)
        return sp_bo_create(dev, m->nbytes, domain, flags, &m->bo);
    const uint64_t reached = m->cpu ? AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED : 0;
    const uint64_t all = flags | AMDGPU_GEM_CREATE_VRAM_CLEARED | reached;
    int rc = sp_bo_create(dev, m->nbytes, domain, all, &m->bo);
    if (rc)
        return rc;
    struct drm_amdgpu_gem_create_in info = made(dev, m->bo, all);
    if (info.domains & AMDGPU_GEM_DOMAIN_GTT) {
        m->domain = AMDGPU_GEM_DOMAIN_GTT;
        m->cpu = 1;
    } else if (is_code(m->kind) && !(info.domain_flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED)) {
        sp_bo_drop(dev, m->bo); /* the CPU's window is full */
        return make(dev, AMDGPU_GEM_DOMAIN_GTT, flags, m);
    }
    return 0;
}

int sp_amdgpu_place(struct sp_amdgpu *dev, uint64_t flags, struct sp_amdgpu_memory *m)
{
    const uint32_t domain = wanted(&dev->setup, m);
    int rc = make(dev, domain, flags, m);
    if (rc == -ENOMEM) { /* what is kept for the next who asks may be what is missing */
        sp_amdgpu_pool_empty(dev);
        rc = make(dev, domain, flags, m);
    }
    if (rc == -ENOMEM && m->kind == SP_AMDGPU_DEVICE && domain == AMDGPU_GEM_DOMAIN_GTT)
        rc = make(dev, AMDGPU_GEM_DOMAIN_VRAM, flags, m);
    if (rc)
        return rc;
    m->displaced = m->domain != domain;
    atomic_fetch_add_explicit(&dev->displaced, m->displaced, memory_order_relaxed);
    if (is_code(m->kind))
        atomic_fetch_add_explicit(&dev->code_nbytes[m->domain == AMDGPU_GEM_DOMAIN_VRAM], m->nbytes, memory_order_relaxed);
    return 0;
}
