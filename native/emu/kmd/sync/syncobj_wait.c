/* The ioctls SYNCOBJ_WAIT and SYNCOBJ_TIMELINE_WAIT. */
#include "emu/kmd/state/handlers.h"
#include "sync.h"

struct wait {
    struct kmd_syncobj **syncobj; /* syncobjs to wait for; the array holds a reference to each */
    /* point[i]: point of syncobj[i] to wait for; NULL: no points are given, as for binary
     * syncobjs */
    uint64_t *point;
    uint32_t count;
    uint32_t flags;
    uint64_t deadline;
    uint32_t first; /* index of the first syncobj that has signalled */
    bool silent;    /* SP_FLAW_INTERRUPT: the card never reports that a job has ended */
};

static const uint32_t ANY_KIND = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;

static void clear(struct wait *w)
{
    for (uint32_t i = 0; w->syncobj && i < w->count; i++)
        if (w->syncobj[i])
            kmd_syncobj_put(w->syncobj[i]);
    free(w->syncobj);
    free(w->point);
}

static int take(struct kmd_file *file, struct wait *w, uint64_t handles, uint64_t points)
{
    int rc;
    uint32_t *handle = kmd_copy_array(handles, w->count, sizeof(*handle), &rc);
    if (rc == 0 && points)
        w->point = kmd_copy_array(points, w->count, sizeof(*w->point), &rc);
    if (rc == 0 && !(w->syncobj = calloc(w->count, sizeof(struct kmd_syncobj *))))
        rc = -ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < w->count; i++) {
        w->syncobj[i] = kmd_syncobj_find(file, handle[i]);
        if (w->syncobj[i])
            w->syncobj[i]->refs++;
        else
            rc = -ENOENT;
    }
    free(handle);
    return rc;
}

/* Checks syncobj `i`. Returns 1 if the wait for it is over, 0 if not. Returns -EINVAL if it has no
 * fence, and the flags do not allow to wait for one. */
static int look(struct wait *w, uint32_t i)
{
    bool told = !w->silent;
    struct kmd_fence *fence = kmd_syncobj_fence(w->syncobj[i], w->point ? w->point[i] : 0);
    bool available = w->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
    if (!fence)
        return available || w->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT ? 0 : -EINVAL;
    int done = available || (fence->signalled && told);
    kmd_fence_put(fence);
    return done;
}

static int look_at_all(struct wait *w)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        int rc = look(w, i);
        if (rc < 0)
            return rc;
        if (rc && done++ == 0)
            w->first = i;
    }
    return w->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL ? done == w->count : done > 0;
}

static int wait_all(struct kmd_file *file, struct wait *w, uint64_t handles, uint64_t points)
{
    int rc = take(file, w, handles, points), done = 0;
    w->silent = kmd_is_silent(file->card);
    while (rc == 0) {
        done = look_at_all(w);
        if (done)
            break;
        rc = kmd_wait_change(file->card->machine, file->card, w->deadline);
    }
    clear(w);
    return done < 0 ? done : rc;
}

int kmd_do_syncobj_wait(struct kmd_file *file, void *data)
{
    struct drm_syncobj_wait *args = data;
    /* The timeout is an absolute time. For a past time, 0 or a negative value the call checks
     * without waiting. */
    uint64_t deadline = args->timeout_nsec > 0 ? (uint64_t)args->timeout_nsec : 0;
    struct wait w = {.count = args->count_handles, .flags = args->flags, .deadline = deadline};
    if (args->flags & ~(ANY_KIND | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE))
        return -EINVAL;
    if (args->count_handles == 0)
        return 0;
    int rc = wait_all(file, &w, args->handles, 0);
    args->first_signaled = w.first;
    return rc;
}

int kmd_do_syncobj_timeline_wait(struct kmd_file *file, void *data)
{
    struct drm_syncobj_timeline_wait *args = data;
    uint64_t deadline = args->timeout_nsec > 0 ? (uint64_t)args->timeout_nsec : 0;
    struct wait w = {.count = args->count_handles, .flags = args->flags, .deadline = deadline};
    if (args->flags & ~(ANY_KIND | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE))
        return -EINVAL;
    if (args->count_handles == 0)
        return 0;
    int rc = wait_all(file, &w, args->handles, args->points);
    args->first_signaled = w.first;
    return rc;
}
