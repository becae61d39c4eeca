/* The chunks of a submission that say what the job waits for and what it signals. */
#include "cs.h"
#include "jobs.h"
#include "emu/kmd/memory/memory.h"
#include "emu/kmd/sync/sync.h"

int kmd_cs_depend(struct kmd_cs *cs, struct kmd_fence *fence)
{
    if (!fence)
        return 0;
    struct kmd_fence **grown = realloc(cs->wait, (cs->waits + 1) * sizeof(*grown));
    if (!grown) {
        kmd_fence_put(fence);
        return -ENOMEM;
    }
    cs->wait = grown;
    cs->wait[cs->waits++] = fence;
    return 0;
}

static int wait_job(struct kmd_cs *cs, const struct drm_amdgpu_cs_chunk_dep *dep)
{
    struct drm_amdgpu_fence which = {dep->ctx_id, dep->ip_type, dep->ip_instance, dep->ring, dep->handle};
    struct kmd_fence *fence;
    int rc = kmd_fence_of(cs->file, &which, &fence);
    return rc < 0 ? rc : kmd_cs_depend(cs, fence);
}

static int wait_syncobj(struct kmd_cs *cs, uint32_t handle, uint64_t point, uint32_t flags)
{
    struct kmd_fence *fence;
    int rc = kmd_syncobj_take(cs->file, handle, point, flags, &fence);
    return rc < 0 ? rc : kmd_cs_depend(cs, fence);
}

static int promise(struct kmd_cs *cs, uint32_t handle, uint64_t point)
{
    struct kmd_syncobj *syncobj = kmd_syncobj_find(cs->file, handle);
    if (!syncobj)
        return -EINVAL;
    struct kmd_promise *grown = realloc(cs->promise, (cs->promises + 1) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    syncobj->refs++;
    cs->promise = grown;
    cs->promise[cs->promises++] = (struct kmd_promise){syncobj, point};
    return 0;
}

/* Records the syncobjs that the job's end signals. A submission may have only one chunk that lists
 * such syncobjs. */
static int promise_all(struct kmd_cs *cs, bool timeline, const void *data, size_t count)
{
    const struct drm_amdgpu_cs_chunk_syncobj *at = data;
    const struct drm_amdgpu_cs_chunk_sem *sem = data;
    int rc = cs->promises ? -EINVAL : 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = timeline ? promise(cs, at[i].handle, at[i].point) : promise(cs, sem[i].handle, 0);
    return rc;
}

int kmd_cs_add_sync(struct kmd_cs *cs, uint32_t chunk_id, const void *data, size_t nbytes)
{
    const struct drm_amdgpu_cs_chunk_dep *dep = data;
    const struct drm_amdgpu_cs_chunk_sem *sem = data;
    const struct drm_amdgpu_cs_chunk_syncobj *at = data;
    int rc = 0;
    switch (chunk_id) {
    case AMDGPU_CHUNK_ID_DEPENDENCIES:
    /* this chunk asks to wait until the other job is scheduled; waiting longer, until it is done,
     * is allowed */
    case AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES:
        for (size_t i = 0; i < nbytes / sizeof(*dep) && rc == 0; i++)
            rc = wait_job(cs, &dep[i]);
        return rc;
    case AMDGPU_CHUNK_ID_SYNCOBJ_IN:
        for (size_t i = 0; i < nbytes / sizeof(*sem) && rc == 0; i++)
            rc = wait_syncobj(cs, sem[i].handle, 0, 0);
        return rc;
    case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT:
        for (size_t i = 0; i < nbytes / sizeof(*at) && rc == 0; i++)
            rc = wait_syncobj(cs, at[i].handle, at[i].point, at[i].flags);
        return rc;
    case AMDGPU_CHUNK_ID_SYNCOBJ_OUT:
        return promise_all(cs, false, data, nbytes / sizeof(*sem));
    case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL:
        return promise_all(cs, true, data, nbytes / sizeof(*at));
    /* allowed only for GFX and only with firmware that shadows registers */
    case AMDGPU_CHUNK_ID_CP_GFX_SHADOW:
    default:
        return -EINVAL;
    }
}

int kmd_cs_promise(struct kmd_cs *cs)
{
    int rc = 0;
    for (uint32_t i = 0; i < cs->promises && rc == 0; i++) {
        struct kmd_promise *p = &cs->promise[i];
        rc = p->point ? kmd_syncobj_add(p->syncobj, p->point, cs->job->fence)
                      : kmd_syncobj_set(p->syncobj, cs->job->fence);
    }
    return rc;
}

void kmd_cs_clear(struct kmd_cs *cs)
{
    for (uint32_t i = 0; i < cs->waits; i++)
        kmd_fence_put(cs->wait[i]);
    for (uint32_t i = 0; i < cs->promises; i++)
        kmd_syncobj_put(cs->promise[i].syncobj);
    free(cs->wait);
    free(cs->promise);
    kmd_bo_list_put(cs->list);
    if (cs->job)
        kmd_job_free(cs->job);
    kmd_ctx_put(cs->ctx);
}
