/* The ioctls WAIT_CS, WAIT_FENCES and FENCE_TO_HANDLE. */
#include "files.h"
#include "emu/kmd/state/handlers.h"
#include "emu/kmd/jobs/jobs.h"
#include "emu/kmd/sync/sync.h"

#include <string.h>

static int wait_fence(const struct kmd_file *file, const struct kmd_fence *fence, uint64_t deadline)
{
    int rc = 0;
    while (fence && (!fence->signalled || kmd_is_silent(file->card)) && rc == 0)
        rc = kmd_wait_change(file->card->machine, file->card, deadline);
    return rc;
}

int kmd_do_wait_cs(struct kmd_file *file, void *data)
{
    union drm_amdgpu_wait_cs *args = data;
    const struct drm_amdgpu_wait_cs_in in = args->in;
    struct drm_amdgpu_fence which = {in.ctx_id, in.ip_type, in.ip_instance, in.ring, in.handle};
    struct kmd_fence *fence;
    int rc = kmd_fence_of(file, &which, &fence);
    if (rc < 0)
        return rc;
    rc = wait_fence(file, fence, kmd_deadline(in.timeout));
    int error = fence && fence->signalled ? fence->error : 0;
    kmd_fence_put(fence);
    if (rc < 0 && rc != -ETIME)
        return rc;
    memset(args, 0, sizeof(*args));
    args->out.status = rc == -ETIME;
    return error;
}

/* Waits for all fences, one by one. Returns 1 when all have signalled, 0 at the timeout, or
 * -errno. */
static int wait_all(const struct kmd_file *file, struct kmd_fence *const *fences, uint32_t count, uint64_t deadline)
{
    for (uint32_t i = 0; i < count; i++) {
        int rc = wait_fence(file, fences[i], deadline);
        if (rc < 0)
            return rc == -ETIME ? 0 : rc;
        if (fences[i] && fences[i]->error)
            return fences[i]->error;
    }
    return 1;
}

static int wait_any(const struct kmd_file *file, struct kmd_fence *const *fences, uint32_t count, uint64_t deadline,
                    uint32_t *first)
{
    for (bool last = false;;) {
        for (uint32_t i = 0; i < count; i++) {
            if (!fences[i] || (fences[i]->signalled && !kmd_is_silent(file->card))) {
                *first = i;
                return fences[i] && fences[i]->error ? fences[i]->error : 1;
            }
        }
        if (last)
            return 0;
        int rc = kmd_wait_change(file->card->machine, file->card, deadline);
        if (rc < 0 && rc != -ETIME)
            return rc;
        last = rc == -ETIME;
    }
}

int kmd_do_wait_fences(struct kmd_file *file, void *data)
{
    enum { MOST = 1 << 16 };
    union drm_amdgpu_wait_fences *args = data;
    const struct drm_amdgpu_wait_fences_in in = args->in;
    uint64_t deadline = kmd_deadline(in.timeout_ns);
    uint32_t first = 0, known = 0;
    int rc;
    if (in.fence_count == 0 || in.fence_count > MOST)
        return -EINVAL;
    struct drm_amdgpu_fence *which = kmd_copy_array(in.fences, in.fence_count, sizeof(*which), &rc);
    if (!which)
        return rc;
    struct kmd_fence **fences = calloc(in.fence_count, sizeof(struct kmd_fence *));
    rc = fences ? 0 : -ENOMEM;
    while (rc == 0 && known < in.fence_count)
        if ((rc = kmd_fence_of(file, &which[known], &fences[known])) == 0)
            known++;
    if (rc == 0)
        rc = in.wait_all ? wait_all(file, fences, known, deadline) : wait_any(file, fences, known, deadline, &first);
    for (uint32_t i = 0; i < known; i++)
        kmd_fence_put(fences[i]);
    free(fences);
    free(which);
    if (rc < 0)
        return rc;
    memset(args, 0, sizeof(*args));
    args->out.status = (uint32_t)rc;
    args->out.first_signaled = first;
    return 0;
}

static int make_syncobj(struct kmd_machine *machine, struct kmd_fence *fence, struct kmd_syncobj **out)
{
    int rc = kmd_syncobj_new(machine, out);
    if (rc == 0 && (rc = kmd_syncobj_set(*out, fence)) < 0)
        kmd_syncobj_put(*out);
    return rc;
}

static int to_handle(struct kmd_file *file, struct kmd_fence *fence, uint32_t what, uint32_t *handle)
{
    struct kmd_machine *machine = file->card->machine;
    struct kmd_syncobj *syncobj;
    int fd = -EINVAL;
    if (what == AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD) {
        fd = kmd_token_sync_file(machine, fence);
    } else if (what <= AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD) {
        int rc = make_syncobj(machine, fence, &syncobj);
        if (rc < 0)
            return rc;
        if (what == AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ) {
            rc = kmd_idr_add(&file->syncobjs, syncobj, handle);
            if (rc < 0)
                kmd_syncobj_put(syncobj);
            return rc;
        }
        fd = kmd_token_syncobj(machine, syncobj);
        kmd_syncobj_put(syncobj);
    }
    if (fd >= 0)
        *handle = (uint32_t)fd;
    return fd < 0 ? fd : 0;
}

int kmd_do_fence_to_handle(struct kmd_file *file, void *data)
{
    union drm_amdgpu_fence_to_handle *args = data;
    uint32_t what = args->in.what, handle = 0;
    struct kmd_fence *fence;
    int rc = kmd_fence_of(file, &args->in.fence, &fence);
    if (rc < 0)
        return rc;
    /* The fences of old submissions are freed. The caller gets a new fence, which has signalled,
     * in place of such a fence. */
    if (!fence && !(fence = kmd_fence_join(file->card->machine, NULL, 0)))
        return -ENOMEM;
    rc = to_handle(file, fence, what, &handle);
    kmd_fence_put(fence);
    if (rc == 0) {
        memset(args, 0, sizeof(*args));
        args->out.handle = handle;
    }
    return rc;
}
