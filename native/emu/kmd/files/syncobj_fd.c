/* Converts syncobjs to and from descriptors. A descriptor stands for the syncobj itself, or, as a
 * sync_file, for the present fence of the syncobj. */
#include "files.h"
#include "emu/kmd/state/handlers.h"
#include "emu/kmd/sync/sync.h"

int kmd_do_syncobj_handle_to_fd(struct kmd_file *file, void *data)
{
    struct drm_syncobj_handle *args = data;
    struct kmd_machine *machine = file->card->machine;
    struct kmd_fence *fence;
    int fd;
    if (args->pad || args->flags & ~(uint32_t)DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE)
        return -EINVAL;
    if (args->flags) {
        int rc = kmd_syncobj_take(file, args->handle, 0, 0, &fence);
        if (rc < 0)
            return rc;
        fd = kmd_token_sync_file(machine, fence);
        kmd_fence_put(fence);
    } else {
        struct kmd_syncobj *syncobj = kmd_syncobj_find(file, args->handle);
        fd = syncobj ? kmd_token_syncobj(machine, syncobj) : -EINVAL;
    }
    if (fd < 0)
        return fd;
    args->fd = fd;
    return 0;
}

int kmd_do_syncobj_fd_to_handle(struct kmd_file *file, void *data)
{
    struct drm_syncobj_handle *args = data;
    struct kmd_token *token = kmd_token_of(file->card->machine, args->fd);
    if (args->pad || args->flags & ~(uint32_t)DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE)
        return -EINVAL;
    if (!token || token->kind != (args->flags ? KMD_SYNC_FILE : KMD_SYNCOBJ_FD))
        return -EINVAL;
    if (args->flags) {
        struct kmd_syncobj *syncobj = kmd_syncobj_find(file, args->handle);
        return syncobj ? kmd_syncobj_set(syncobj, token->fence) : -ENOENT;
    }
    int rc = kmd_idr_add(&file->syncobjs, token->syncobj, &args->handle);
    if (rc == 0)
        token->syncobj->refs++;
    return rc;
}
