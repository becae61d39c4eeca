/* BO lists: made by the ioctl BO_LIST, or part of a submission. */
#include "memory.h"
#include "emu/kmd/state/handlers.h"

#include <string.h>

void kmd_bo_list_put(struct kmd_bo_list *list)
{
    if (!list || --list->refs > 0)
        return;
    for (uint32_t i = 0; i < list->count; i++)
        kmd_bo_put(list->bo[i]);
    list->machine->live.bo_lists--;
    free(list->bo);
    free(list);
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)*(struct kmd_bo *const *)a, y = (uintptr_t)*(struct kmd_bo *const *)b;
    return (x > y) - (x < y);
}

/* Reads the BO handles of a list's entries. The caller's entries may be shorter or longer than the
 * emulator's struct. */
static int read_handles(const struct drm_amdgpu_bo_list_in *in, uint32_t *handle)
{
    const uint64_t ours = sizeof(struct drm_amdgpu_bo_list_entry);
    uint64_t used = in->bo_info_size < ours ? in->bo_info_size : ours;
    int rc = 0;
    /* the usual case: the entries have the known size, so one copy reads all */
    if (in->bo_info_size == ours) {
        struct drm_amdgpu_bo_list_entry *entry = kmd_copy_array(in->bo_info_ptr, in->bo_number, sizeof(*entry), &rc);
        for (uint32_t i = 0; entry && i < in->bo_number; i++)
            handle[i] = entry[i].bo_handle;
        free(entry);
        return rc;
    }
    for (uint64_t i = 0; i < in->bo_number; i++) {
        struct drm_amdgpu_bo_list_entry entry = {0, 0};
        if (kmd_copy_from_user(&entry, in->bo_info_ptr + i * in->bo_info_size, used) < 0)
            return -EFAULT;
        handle[i] = entry.bo_handle;
    }
    return 0;
}

/* Finds the BOs that the handles name now, because a handle may name another BO later. */
static int take_bos(const struct kmd_file *file, struct kmd_bo_list *list, const uint32_t *handle, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct kmd_bo *bo = kmd_idr_get(&file->bos, handle[i]);
        if (!bo)
            return -ENOENT;
        kmd_bo_get(bo);
        list->bo[list->count++] = bo;
    }
    qsort(list->bo, list->count, sizeof(struct kmd_bo *), by_address);
    return 0;
}

int kmd_bo_list_read(struct kmd_file *file, const struct drm_amdgpu_bo_list_in *in, struct kmd_bo_list **out)
{
    enum { MOST = 1 << 16 };
    struct kmd_machine *machine = file->card->machine;
    if (in->bo_number > MOST)
        return -EINVAL;
    struct kmd_bo_list *list = calloc(1, sizeof(*list));
    if (!list)
        return -ENOMEM;
    list->refs = 1;
    list->machine = machine;
    machine->live.bo_lists++;
    uint32_t *handle = calloc(in->bo_number + 1U, sizeof(*handle));
    list->bo = calloc(in->bo_number + 1U, sizeof(struct kmd_bo *));
    int rc = handle && list->bo ? read_handles(in, handle) : -ENOMEM;
    if (rc == 0)
        rc = take_bos(file, list, handle, in->bo_number);
    free(handle);
    if (rc < 0)
        kmd_bo_list_put(list);
    else
        *out = list;
    return rc;
}

static int create(struct kmd_file *file, const struct drm_amdgpu_bo_list_in *in, union drm_amdgpu_bo_list *args)
{
    struct kmd_bo_list *list;
    uint32_t handle;
    int rc = kmd_bo_list_read(file, in, &list);
    if (rc < 0)
        return rc;
    rc = kmd_idr_add(&file->lists, list, &handle);
    if (rc < 0) {
        kmd_bo_list_put(list);
        return rc;
    }
    memset(args, 0, sizeof(*args));
    args->out.list_handle = handle;
    return 0;
}

static int update(struct kmd_file *file, const struct drm_amdgpu_bo_list_in *in)
{
    struct kmd_bo_list *list, *old = kmd_idr_get(&file->lists, in->list_handle);
    if (!old)
        return -ENOENT;
    int rc = kmd_bo_list_read(file, in, &list);
    if (rc < 0)
        return rc;
    file->lists.slot[in->list_handle - 1] = list;
    kmd_bo_list_put(old);
    return 0;
}

int kmd_do_bo_list(struct kmd_file *file, void *data)
{
    union drm_amdgpu_bo_list *args = data;
    struct drm_amdgpu_bo_list_in in = args->in;
    struct kmd_bo_list *list;
    switch (in.operation) {
    case AMDGPU_BO_LIST_OP_CREATE:
        return create(file, &in, args);
    case AMDGPU_BO_LIST_OP_DESTROY:
        list = kmd_idr_remove(&file->lists, in.list_handle);
        kmd_bo_list_put(list); /* the kernel driver, too, ignores an unknown handle */
        return 0;
    case AMDGPU_BO_LIST_OP_UPDATE:
        return update(file, &in);
    default:
        return -EINVAL;
    }
}
