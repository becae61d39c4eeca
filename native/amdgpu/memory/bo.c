/* Buffer objects (BOs): creates and maps them, shares them by handle. */
#include "bo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sp_bo *new_bo(uint32_t handle, uint64_t nbytes)
{
    struct sp_bo *bo = calloc(1, sizeof *bo);
    if (bo)
        *bo = (struct sp_bo){.handle = handle, .refs = 1, .nbytes = nbytes, .dmabuf = -1};
    return bo;
}

static void close_handle(struct sp_amdgpu *dev, uint32_t handle)
{
    struct drm_gem_close args = {.handle = handle};
    sp_amdgpu_ioctl(dev, DRM_IOCTL_GEM_CLOSE, &args);
}

int sp_bo_create(struct sp_amdgpu *dev, uint64_t nbytes, uint64_t domains, uint64_t flags, struct sp_bo **out)
{
    union drm_amdgpu_gem_create args;
    memset(&args, 0, sizeof args);
    args.in = (struct drm_amdgpu_gem_create_in){
        .bo_size = nbytes, .alignment = SP_PAGE, .domains = domains, .domain_flags = flags};
    int rc = sp_amdgpu_ioctl(dev, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);
    if (rc < 0)
        return rc;
    *out = new_bo(args.out.handle, nbytes);
    if (!*out) {
        close_handle(dev, args.out.handle);
        return -ENOMEM;
    }
    return 0;
}

/* Returns the BO of a handle that the kernel driver gave for a descriptor or for host memory. For a
 * known handle this is the existing BO, with one more reference. */
int sp_bo_adopt(struct sp_amdgpu *dev, uint32_t handle, uint64_t nbytes, struct sp_bo **out)
{
    pthread_mutex_lock(&dev->lock);
    struct sp_bo *bo = dev->bos;
    while (bo && bo->handle != handle)
        bo = bo->next;
    if (bo) {
        bo->refs++;
    } else if ((bo = new_bo(handle, nbytes))) {
        bo->next = dev->bos;
        dev->bos = bo;
    }
    pthread_mutex_unlock(&dev->lock);
    *out = bo;
    return bo ? 0 : -ENOMEM;
}

/* Removes a BO from the device's list. The caller holds the device's lock until the handle is
 * closed, so that no other thread finds the handle. */
static void forget(struct sp_amdgpu *dev, const struct sp_bo *bo)
{
    for (struct sp_bo **at = &dev->bos; *at; at = &(*at)->next)
        if (*at == bo) {
            *at = bo->next;
            return;
        }
}

void sp_bo_drop(struct sp_amdgpu *dev, struct sp_bo *bo)
{
    pthread_mutex_lock(&dev->lock);
    int last = --bo->refs == 0;
    if (last) {
        forget(dev, bo);
        if (bo->mapping)
            dev->ops->munmap(dev->ops->self, bo->mapping, bo->nbytes);
        close_handle(dev, bo->handle);
    }
    pthread_mutex_unlock(&dev->lock);
    if (!last)
        return;
    if (bo->dmabuf >= 0)
        close(bo->dmabuf);
    free(bo);
}

/* Maps a BO for the CPU. A BO imported from another driver is mapped by its dma-buf, because an
 * access through a mapping of the render node would raise SIGBUS. */
static int64_t mapped(struct sp_amdgpu *dev, const struct sp_bo *bo)
{
    const int rights = PROT_READ | PROT_WRITE;
    if (bo->dmabuf >= 0)
        return dev->ops->mmap(dev->ops->self, bo->nbytes, rights, MAP_SHARED, bo->dmabuf, 0);
    union drm_amdgpu_gem_mmap args;
    memset(&args, 0, sizeof args);
    args.in.handle = bo->handle;
    int rc = sp_amdgpu_ioctl(dev, DRM_IOCTL_AMDGPU_GEM_MMAP, &args);
    return rc < 0 ? rc : dev->ops->mmap(dev->ops->self, bo->nbytes, rights, MAP_SHARED, dev->fd, args.out.addr_ptr);
}

int sp_bo_map(struct sp_amdgpu *dev, struct sp_bo *bo)
{
    int64_t at = 0;
    pthread_mutex_lock(&dev->lock);
    if (!bo->mapping) {
        at = mapped(dev, bo);
        if (at >= 0 || at < -4095)
            bo->mapping = (void *)(uintptr_t)at;
    }
    pthread_mutex_unlock(&dev->lock);
    return bo->mapping ? 0 : (int)at;
}

int sp_bo_va(struct sp_amdgpu *dev, const struct sp_bo *bo, uint32_t operation, uint64_t va, uint64_t nbytes,
             uint32_t flags)
{
    struct drm_amdgpu_gem_va args = {
        .handle = bo->handle, .operation = operation, .flags = flags, .va_address = va, .map_size = nbytes};
    return sp_amdgpu_ioctl(dev, DRM_IOCTL_AMDGPU_GEM_VA, &args);
}
