/* GEM_USERPTR: the caller's own pages as a BO. */
#include "memory.h"
#include "emu/kmd/state/handlers.h"

#include <stdio.h>
#include <time.h>

/* Returns true if every page of [first, end) is writable. The function reads /proc/self/maps.
 * It does not write a byte back as a test, because that could undo another thread's write. */
static bool is_writable(uint64_t first, uint64_t end)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t capacity = 0;
    while (maps && first < end && getline(&line, &capacity, maps) > 0) {
        unsigned long long low, high;
        char right[8];
        if (sscanf(line, "%llx-%llx %7s", &low, &high, right) != 3 || high <= first)
            continue;
        if (low > first || right[1] != 'w')
            break;
        first = high;
    }
    free(line);
    if (maps)
        fclose(maps);
    return first >= end;
}

int kmd_userptr_check(const struct kmd_bo *bo)
{
    uint64_t first = (uint64_t)(uintptr_t)bo->host;
    int rc = kmd_probe_user(first, bo->nbytes);
    return rc == 0 && !bo->user_readonly && !is_writable(first, first + bo->nbytes) ? -EFAULT : rc;
}

int kmd_userptr_walk(const struct kmd_bo *bo)
{
    const struct sp_emu_flaw_of *slow = sp_emu_flaw(&bo->card->chip.core, SP_FLAW_USERPTR);
    const uint64_t pages = bo->nbytes / KMD_PAGE, ns = slow ? pages * slow->a : 0;
    bo->card->userptr_pages += pages;
    if (ns)
        nanosleep(&(struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)}, NULL);
    return kmd_userptr_check(bo);
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
