/* Checks records before a queue accepts them. */
#include "check.h"
#include "core/dispatch.h"
#include "cuda/flight/queue.h"
#include "cuda/memory/kernel.h"
#include "cuda/memory/memory.h"

#include <errno.h>

static int check_grid(const struct sp_cuda *dev, const struct sp_cuda_kernel *k, const struct sp_cmd_dispatch *d)
{
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (d->group_size[i] == 0 || d->group_size[i] > dev->info.max_group[i] || d->groups[i] > dev->info.max_groups[i])
            return -EINVAL;
        threads *= d->group_size[i];
    }
    if (threads > k->shape.max_threads)
        return -EINVAL;
    return d->shared_nbytes > k->most_shared ? -E2BIG : 0;
}

int sp_cuda_check_dispatch(const struct sp_cuda *dev, const void *record, size_t nbytes)
{
    const struct sp_cmd_dispatch *d = record;
    if (!sp_dispatch_whole(record, nbytes))
        return -EINVAL;
    const struct sp_cuda_kernel *k = (const void *)(uintptr_t)d->kernel;
    if (!k || k->magic != SP_CUDA_KERNEL_MAGIC || k->dev != dev)
        return -EINVAL;
    if (!sp_dispatch_fits(d, &k->sig))
        return -EINVAL;
    int rc = check_grid(dev, k, d);
    return rc ? rc : sp_signature_check(&k->sig, d + 1, NULL, NULL);
}

static int check_one(const struct sp_cuda *dev, const struct sp_cmd *head)
{
    const void *record = head;
    if (head->kind == SP_CMD_DISPATCH)
        return sp_cuda_check_dispatch(dev, head, head->nbytes);
    if (head->kind == SP_CMD_WAIT) {
        const struct sp_cmd_wait *w = record;
        const struct sp_cuda_queue *other = (const void *)(uintptr_t)w->queue;
        return other && other->dev == dev && w->value <= sp_queue_newest(&other->q) ? 0 : -EINVAL;
    }
    /* the host writes the time to the address `slot` of this record, so the host must have access
     * to it */
    if (head->kind == SP_CMD_TIMESTAMP) {
        const struct sp_cmd_timestamp *t = record;
        return t->slot % 8 == 0 && sp_cuda_reach((struct sp_cuda *)dev, t->slot, 8) ? 0 : -EFAULT;
    }
    return 0;
}

int sp_cuda_check(const struct sp_cuda *dev, const void *records, size_t nbytes)
{
    if (!sp_cuda_usable(dev))
        return -ECHILD;
    int rc = sp_cmd_validate(records, nbytes, NULL);
    const unsigned char *p = records;
    for (size_t at = 0; rc == 0 && at < nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        rc = check_one(dev, head);
        at += head->nbytes;
    }
    return rc;
}
