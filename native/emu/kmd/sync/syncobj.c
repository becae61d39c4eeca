/* Syncobjs: a syncobj holds one fence, or a timeline of fences. A point of a timeline has signalled
 * when its fence and the fences of all earlier points have. */
#include "sync.h"
#include "emu/kmd/state/handlers.h"

#include <string.h>

int kmd_syncobj_new(struct kmd_machine *machine, struct kmd_syncobj **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return -ENOMEM;
    (*out)->refs = 1;
    (*out)->machine = machine;
    machine->live.syncobjs++;
    return 0;
}

static void forget_points(struct kmd_syncobj *syncobj)
{
    for (uint32_t i = 0; i < syncobj->count; i++)
        kmd_fence_put(syncobj->point[i].fence);
    syncobj->count = 0;
    syncobj->reached = 0;
    syncobj->timeline = false;
}

void kmd_syncobj_put(struct kmd_syncobj *syncobj)
{
    if (--syncobj->refs > 0)
        return;
    forget_points(syncobj);
    syncobj->machine->live.syncobjs--;
    free(syncobj->point);
    free(syncobj);
}

struct kmd_syncobj *kmd_syncobj_find(struct kmd_file *file, uint32_t handle)
{
    return kmd_idr_get(&file->syncobjs, handle);
}

static int push_point(struct kmd_syncobj *syncobj, uint64_t value, struct kmd_fence *fence)
{
    if (syncobj->count == syncobj->capacity) {
        uint32_t capacity = syncobj->capacity ? 2 * syncobj->capacity : 1;
        struct kmd_point *grown = realloc(syncobj->point, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        syncobj->point = grown;
        syncobj->capacity = capacity;
    }
    syncobj->point[syncobj->count++] = (struct kmd_point){value, fence};
    pthread_cond_broadcast(&syncobj->machine->changed);
    return 0;
}

int kmd_syncobj_set(struct kmd_syncobj *syncobj, struct kmd_fence *fence)
{
    /* takes a reference first: a point that forget_points removes may hold the only other one */
    kmd_fence_get(fence);
    forget_points(syncobj);
    if (!fence)
        return 0;
    int rc = push_point(syncobj, 0, fence);
    if (rc < 0)
        kmd_fence_put(fence);
    return rc;
}

/* Drops all signalled points except the latest. */
static void advance(struct kmd_syncobj *syncobj)
{
    uint32_t done = 0;
    while (done < syncobj->count && syncobj->point[done].fence->signalled)
        syncobj->reached = syncobj->point[done++].value;
    uint32_t drop = done && done == syncobj->count ? done - 1 : done;
    if (!syncobj->timeline || drop == 0)
        return;
    for (uint32_t i = 0; i < drop; i++)
        kmd_fence_put(syncobj->point[i].fence);
    syncobj->count -= drop;
    memmove(syncobj->point, syncobj->point + drop, syncobj->count * sizeof(*syncobj->point));
}

int kmd_syncobj_add(struct kmd_syncobj *syncobj, uint64_t value, struct kmd_fence *fence)
{
    struct kmd_fence *parts[2] = {fence, NULL};
    advance(syncobj);
    if (syncobj->count) {
        const struct kmd_point *last = &syncobj->point[syncobj->count - 1];
        parts[1] = last->fence;
        /* If the new point is lower than the last one, the points come out of order. As in the
         * kernel driver, the new point then gets the last one's value: a timeline never goes
         * back. */
        if (last->value > value)
            value = last->value;
    }
    struct kmd_fence *joined = kmd_fence_join(syncobj->machine, parts, 2);
    if (!joined)
        return -ENOMEM;
    int rc = push_point(syncobj, value, joined);
    if (rc < 0)
        kmd_fence_put(joined);
    else
        syncobj->timeline = true;
    return rc;
}

struct kmd_fence *kmd_syncobj_fence(struct kmd_syncobj *syncobj, uint64_t point)
{
    if (syncobj->count == 0)
        return NULL;
    if (point == 0)
        return kmd_fence_get(syncobj->point[syncobj->count - 1].fence);
    if (!syncobj->timeline)
        return NULL;
    for (uint32_t i = 0; i < syncobj->count; i++)
        if (syncobj->point[i].value >= point)
            return kmd_fence_get(syncobj->point[i].fence);
    return NULL;
}

int kmd_syncobj_take(struct kmd_file *file, uint32_t handle, uint64_t point, uint32_t flags, struct kmd_fence **out)
{
    const uint64_t patience_ns = UINT64_C(5000000000); /* DRM_SYNCOBJ_WAIT_FOR_SUBMIT_TIMEOUT */
    struct kmd_syncobj *syncobj = kmd_syncobj_find(file, handle);
    uint64_t deadline = kmd_now() + patience_ns;
    int rc = 0;
    if (!syncobj)
        return -ENOENT;
    syncobj->refs++;
    while (!(*out = kmd_syncobj_fence(syncobj, point)) && rc == 0)
        rc = flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT
                 ? kmd_wait_change(file->card->machine, file->card, deadline)
                 : -EINVAL;
    kmd_syncobj_put(syncobj);
    return *out ? 0 : rc;
}

static struct kmd_fence *signalled_fence(struct kmd_machine *machine)
{
    return kmd_fence_join(machine, NULL, 0);
}

int kmd_do_syncobj_create(struct kmd_file *file, void *data)
{
    struct drm_syncobj_create *args = data;
    struct kmd_machine *machine = file->card->machine;
    struct kmd_syncobj *syncobj;
    if (args->flags & ~(uint32_t)DRM_SYNCOBJ_CREATE_SIGNALED)
        return -EINVAL;
    int rc = kmd_syncobj_new(machine, &syncobj);
    if (rc < 0)
        return rc;
    if (args->flags & DRM_SYNCOBJ_CREATE_SIGNALED) {
        struct kmd_fence *fence = signalled_fence(machine);
        rc = fence ? kmd_syncobj_set(syncobj, fence) : -ENOMEM;
        kmd_fence_put(fence);
    }
    if (rc == 0)
        rc = kmd_idr_add(&file->syncobjs, syncobj, &args->handle);
    if (rc < 0)
        kmd_syncobj_put(syncobj);
    return rc;
}

int kmd_do_syncobj_destroy(struct kmd_file *file, void *data)
{
    const struct drm_syncobj_destroy *args = data;
    struct kmd_syncobj *syncobj = args->pad ? NULL : kmd_idr_remove(&file->syncobjs, args->handle);
    if (!syncobj)
        return -EINVAL;
    kmd_syncobj_put(syncobj);
    return 0;
}

/* Returns the syncobjs that an array of handles names, or NULL with an error in `*error`. */
static struct kmd_syncobj **take_all(struct kmd_file *file, uint64_t handles, uint32_t count, int *error)
{
    uint32_t *handle = kmd_copy_array(handles, count, sizeof(*handle), error);
    struct kmd_syncobj **all = handle ? calloc(count, sizeof(struct kmd_syncobj *)) : NULL;
    if (handle && !all)
        *error = -ENOMEM;
    for (uint32_t i = 0; all && i < count; i++) {
        all[i] = kmd_syncobj_find(file, handle[i]);
        if (!all[i])
            *error = -ENOENT;
    }
    free(handle);
    if (*error) {
        free(all);
        return NULL;
    }
    /* no references are needed, because the lock is held until the objects are no longer used */
    return all;
}

int kmd_do_syncobj_reset(struct kmd_file *file, void *data)
{
    const struct drm_syncobj_array *args = data;
    int rc;
    if (args->pad || args->count_handles == 0)
        return -EINVAL;
    struct kmd_syncobj **all = take_all(file, args->handles, args->count_handles, &rc);
    for (uint32_t i = 0; all && i < args->count_handles; i++)
        rc = kmd_syncobj_set(all[i], NULL);
    free(all);
    return rc;
}

int kmd_do_syncobj_signal(struct kmd_file *file, void *data)
{
    const struct drm_syncobj_array *args = data;
    int rc;
    if (args->pad || args->count_handles == 0)
        return -EINVAL;
    struct kmd_syncobj **all = take_all(file, args->handles, args->count_handles, &rc);
    struct kmd_fence *fence = all ? signalled_fence(file->card->machine) : NULL;
    if (all && !fence)
        rc = -ENOMEM;
    for (uint32_t i = 0; fence && i < args->count_handles && rc == 0; i++)
        rc = kmd_syncobj_set(all[i], fence);
    kmd_fence_put(fence);
    free(all);
    return rc;
}

int kmd_do_syncobj_timeline_signal(struct kmd_file *file, void *data)
{
    const struct drm_syncobj_timeline_array *args = data;
    int rc;
    if (args->flags || args->count_handles == 0)
        return -EINVAL;
    struct kmd_syncobj **all = take_all(file, args->handles, args->count_handles, &rc);
    uint64_t *point = all && args->points ? kmd_copy_array(args->points, args->count_handles, sizeof(*point), &rc) : NULL;
    struct kmd_fence *fence = all && rc == 0 ? signalled_fence(file->card->machine) : NULL;
    if (all && rc == 0 && !fence)
        rc = -ENOMEM;
    for (uint32_t i = 0; fence && i < args->count_handles && rc == 0; i++)
        rc = kmd_syncobj_add(all[i], point ? point[i] : 0, fence);
    kmd_fence_put(fence);
    free(point);
    free(all);
    return rc;
}

int kmd_do_syncobj_query(struct kmd_file *file, void *data)
{
    const struct drm_syncobj_timeline_array *args = data;
    int rc;
    if (args->flags & ~(uint32_t)DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED || args->count_handles == 0)
        return -EINVAL;
    struct kmd_syncobj **all = take_all(file, args->handles, args->count_handles, &rc);
    for (uint32_t i = 0; all && i < args->count_handles && rc == 0; i++) {
        advance(all[i]);
        uint64_t value = !all[i]->timeline ? 0
                         : args->flags     ? all[i]->point[all[i]->count - 1].value
                                           : all[i]->reached;
        rc = kmd_copy_to_user(args->points + i * sizeof(value), &value, sizeof(value));
    }
    free(all);
    return rc;
}

int kmd_do_syncobj_transfer(struct kmd_file *file, void *data)
{
    const struct drm_syncobj_transfer *args = data;
    struct kmd_fence *fence;
    if (args->pad)
        return -EINVAL;
    int rc = kmd_syncobj_take(file, args->src_handle, args->src_point, args->flags, &fence);
    if (rc < 0)
        return rc;
    struct kmd_syncobj *to = kmd_syncobj_find(file, args->dst_handle);
    rc = !to               ? -ENOENT
         : args->dst_point ? kmd_syncobj_add(to, args->dst_point, fence)
                           : kmd_syncobj_set(to, fence);
    kmd_fence_put(fence);
    return rc;
}
