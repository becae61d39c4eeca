/* Checks records before a queue accepts them. */
#include "check.h"
#include "amdgpu/flight/queue.h"
#include "core/dispatch.h"
#include "core/extents.h"
#include "scratch.h"

#include <errno.h>

/* The largest number of threads of one grid. The limit exists because the submitting thread waits
 * for most of the grid's jobs. */
static const uint64_t MOST_THREADS = UINT64_C(1) << 36;
enum { LDS_MOST = 65536 };

static int check_grid(const struct sp_amdgpu *dev, const struct sp_amdgpu_kernel *k, const struct sp_cmd_dispatch *d)
{
    uint64_t threads = 1, groups = 1;
    int any = k->t.required_size[0] == 0, same = 1, none = 0;
    for (int i = 0; i < 3; i++) {
        if (d->group_size[i] == 0 || d->group_size[i] > k->t.max_threads)
            return -EINVAL;
        threads *= d->group_size[i];
        same &= d->group_size[i] == k->t.required_size[i];
        none |= d->groups[i] == 0;
    }
    if (threads > k->t.max_threads || !(any || same))
        return -EINVAL;
    for (int i = 0; i < 3; i++)
        if (d->groups[i] > INT32_MAX)
            return -EINVAL;
    for (int i = 0; i < 3 && !none; i++)
        if (__builtin_mul_overflow(groups, (uint64_t)d->groups[i], &groups) ||
            __builtin_mul_overflow(groups, threads, &(uint64_t){0}))
            return -EINVAL;
    if (!none && dev->setup.job_threads && groups * threads > MOST_THREADS)
        return -E2BIG;
    return d->shared_nbytes > LDS_MOST || k->t.lds_nbytes + d->shared_nbytes > LDS_MOST ? -E2BIG : 0;
}

int sp_amdgpu_check_dispatch(const struct sp_amdgpu *dev, const void *record, size_t nbytes)
{
    const struct sp_cmd_dispatch *d = record;
    if (!sp_dispatch_whole(record, nbytes))
        return -EINVAL;
    const struct sp_amdgpu_kernel *k = (const void *)(uintptr_t)d->kernel;
    if (!k || k->magic != SP_KERNEL_MAGIC_AMD || k->dev != dev)
        return -EINVAL;
    if (!sp_dispatch_fits(d, &k->sig))
        return -EINVAL;
    int rc = check_grid(dev, k, d);
    rc = rc || !k->t.scratch_wave_nbytes ? rc : sp_scratch_check(dev, d);
    return rc ? rc : sp_extents_check(&k->sig, d + 1, &(uint32_t){0}, &(uint64_t){0});
}

/* Checks a timestamp record. The CPU converts the timestamp to ns, so the CPU must be able to
 * access the address `slot`, at which it stores the result. */
static int check_stamp(const struct sp_amdgpu *dev, const struct sp_cmd_timestamp *t)
{
    void *host;
    if (t->slot % 8)
        return -EINVAL;
    if (!dev->setup.counter_khz)
        return -EOPNOTSUPP;
    return sp_amdgpu_find((struct sp_amdgpu *)dev, t->slot, 8, &host) && host ? 0 : -EFAULT;
}

int sp_amdgpu_check(const struct sp_amdgpu *dev, const void *records, size_t nbytes)
{
    int rc = sp_cmd_validate(records, nbytes, NULL);
    const unsigned char *p = records;
    for (size_t at = 0; rc == 0 && at < nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        if (head->kind == SP_CMD_DISPATCH) {
            rc = sp_amdgpu_check_dispatch(dev, head, head->nbytes);
        } else if (head->kind == SP_CMD_WAIT) {
            const struct sp_cmd_wait *w = (const void *)head;
            const struct sp_amdgpu_queue *other = (const void *)(uintptr_t)w->queue;
            rc = other && other->dev == dev && w->value <= sp_queue_newest(&other->common) ? 0 : -EINVAL;
        } else if (head->kind == SP_CMD_TIMESTAMP) {
            rc = check_stamp(dev, (const void *)head);
        }
        at += head->nbytes;
    }
    return rc;
}
