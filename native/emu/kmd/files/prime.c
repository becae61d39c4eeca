/* PRIME: BOs as dma-bufs. An importer on the same card gets the same object. An importer on another
 * card of the machine shares the pages. The BO then moves to GTT and stays there, as on real cards
 * without peer-to-peer access. */
#include "files.h"
#include "emu/kmd/state/handlers.h"
#include "emu/kmd/memory/memory.h"

#include <fcntl.h>

int kmd_do_prime_handle_to_fd(struct kmd_file *file, void *data)
{
    struct drm_prime_handle *args = data;
    struct kmd_bo *bo = kmd_idr_get(&file->bos, args->handle);
    if (args->flags & ~(uint32_t)(DRM_CLOEXEC | DRM_RDWR))
        return -EINVAL;
    if (!bo)
        return -ENOENT;
    if (bo->userptr || bo->private_to)
        return -EPERM;
    int fd = kmd_token_dmabuf(file->card->machine, bo, args->flags);
    if (fd < 0)
        return fd;
    args->fd = fd;
    return 0;
}

static uint32_t handle_of(const struct kmd_file *file, const struct kmd_bo *bo)
{
    for (uint32_t i = 0; i < file->bos.capacity; i++)
        if (file->bos.slot[i] == bo)
            return i + 1;
    return 0;
}

int kmd_do_prime_fd_to_handle(struct kmd_file *file, void *data)
{
    struct drm_prime_handle *args = data;
    struct kmd_token *token = kmd_token_of(file->card->machine, args->fd);
    if (!token || token->kind != KMD_DMABUF)
        return fcntl(args->fd, F_GETFD) < 0 ? -EBADF : -EINVAL;
    struct kmd_bo *bo = token->bo;
    args->handle = handle_of(file, bo);
    if (args->handle)
        return 0;
    int rc = kmd_idr_add(&file->bos, bo, &args->handle);
    if (rc < 0)
        return rc;
    kmd_bo_get(bo);
    if (bo->card != file->card) {
        kmd_bo_move_to_gtt(bo);
        bo->pinned = true;
    }
    return 0;
}
