/* GEM_USERPTR: the caller's own pages as a BO. */
#include "kmd.h"
#include "handlers.h"

/* A byte of every page: enough to know that it is there. */
int kmd_userptr_check(const struct kmd_bo *bo)
{
    uint8_t byte;
    for (uint64_t at = 0; at < bo->nbytes; at += KMD_PAGE)
        if (kmd_copy_from_user(&byte, (uint64_t)(uintptr_t)bo->host + at, 1) < 0)
            return -EFAULT;
    return 0;
}

int kmd_do_gem_userptr(struct kmd_file *file, void *data)
{
    struct drm_amdgpu_gem_userptr *args = data;
    const uint32_t known = AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_VALIDATE |
                           AMDGPU_GEM_USERPTR_REGISTER;
    struct kmd_bo *bo;
    if ((args->addr | args->size) % KMD_PAGE || args->size == 0 || args->addr + args->size < args->addr)
        return -EINVAL;
    if (args->flags & ~known)
        return -EINVAL;
    if (!(args->flags & (AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_REGISTER)))
        return -EACCES;
    int rc = kmd_bo_new_user(file->card, args->addr, args->size, args->flags & AMDGPU_GEM_USERPTR_READONLY, &bo);
    if (rc < 0)
        return rc;
    if (args->flags & AMDGPU_GEM_USERPTR_VALIDATE)
        rc = kmd_userptr_check(bo);
    if (rc == 0)
        rc = kmd_idr_add(&file->bos, bo, &args->handle);
    if (rc < 0)
        kmd_bo_put(bo);
    return rc;
}
