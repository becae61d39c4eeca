/* Chooses the heap, VRAM or GTT, for new memory.
 *
 * A discrete card fetches code and arguments faster from its VRAM than over the bus. Code goes to
 * VRAM if the part of VRAM that the CPU can map has room. Arguments go to VRAM if the CPU can map
 * all of VRAM. The kernel driver flushes the HDP between such CPU writes and an IB
 * (docs/AMDGPU_FACTS.md 6.1).
 *
 * The VRAM of an APU is a part of the DRAM that also holds GTT, and the CPU reads VRAM slowly. If
 * VRAM is smaller than GTT, this file leaves VRAM to the display. */
#include "placement.h"

#include <errno.h>
#include <string.h>

static int is_code(uint32_t kind)
{
    return kind == SP_AMDGPU_CODE || kind == SP_AMDGPU_CODE_AND_DATA;
}

static uint32_t wanted(const struct sp_amdgpu_setup *s, uint64_t nbytes, uint32_t kind)
{
    int vram = is_code(kind) && s->on_board && nbytes <= s->visible_nbytes;
    if (kind == SP_AMDGPU_DEVICE)
        vram = s->on_board || s->vram_nbytes >= s->gtt_nbytes;
    if (kind == SP_AMDGPU_ARGS)
        vram = s->on_board && s->visible_nbytes >= s->vram_nbytes;
    return vram ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT;
}

/* Returns the heap and flags that a BO for VRAM really has, by GEM_OP. If VRAM is full, the kernel
 * driver first drops the flag for CPU access, then adds GTT to the BO's domains
 * (amdgpu_gem_create_ioctl). If GEM_OP fails, the result is what was requested. */
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

static int in_gtt(struct sp_amdgpu *dev, uint64_t nbytes, uint64_t flags, struct sp_placement *out)
{
    out->domain = AMDGPU_GEM_DOMAIN_GTT;
    out->cpu = 1;
    return sp_bo_create(dev, nbytes, AMDGPU_GEM_DOMAIN_GTT, flags, &out->bo);
}

static int in_vram(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind, uint64_t flags, struct sp_placement *out)
{
    const int cpu = is_code(kind) || dev->setup.visible_nbytes >= dev->setup.vram_nbytes;
    const uint64_t all =
        flags | AMDGPU_GEM_CREATE_VRAM_CLEARED | (cpu ? AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED : 0);
    int rc = sp_bo_create(dev, nbytes, AMDGPU_GEM_DOMAIN_VRAM, all, &out->bo);
    if (rc)
        return rc;
    const struct drm_amdgpu_gem_create_in info = made(dev, out->bo, all);
    const int gtt = (info.domains & AMDGPU_GEM_DOMAIN_GTT) != 0;
    if (!gtt && is_code(kind) && !(info.domain_flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED)) {
        /* the BO lacks CPU access, because the part of VRAM that the CPU can map is full: place
         * the code in GTT */
        sp_bo_drop(dev, out->bo);
        return in_gtt(dev, nbytes, flags, out);
    }
    out->domain = gtt ? AMDGPU_GEM_DOMAIN_GTT : AMDGPU_GEM_DOMAIN_VRAM;
    out->cpu = (uint32_t)(gtt || cpu);
    return 0;
}

int sp_bo_place(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind, uint64_t flags, struct sp_placement *out)
{
    const uint32_t domain = wanted(&dev->setup, nbytes, kind);
    int rc = domain == AMDGPU_GEM_DOMAIN_VRAM ? in_vram(dev, nbytes, kind, flags, out) : in_gtt(dev, nbytes, flags, out);
    if (rc == -ENOMEM && kind == SP_AMDGPU_DEVICE && domain == AMDGPU_GEM_DOMAIN_GTT)
        rc = in_vram(dev, nbytes, kind, flags, out);
    if (rc)
        return rc;
    out->displaced = out->domain != domain;
    atomic_fetch_add_explicit(&dev->displaced, out->displaced, memory_order_relaxed);
    if (is_code(kind))
        atomic_fetch_add_explicit(&dev->code_nbytes[out->domain == AMDGPU_GEM_DOMAIN_VRAM], nbytes, memory_order_relaxed);
    return 0;
}
