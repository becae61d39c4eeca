/* Checks records before a queue accepts them. The owner thread then trusts the records. */
#include "check.h"
#include "core/dispatch.h"
#include "egl/device/jobs.h"
#include "egl/device/references.h"
#include "egl/memory/buffer.h"
#include "kernel.h"

#include <errno.h>
#include <string.h>

/* Largest number of pieces into which a grid may be cut; more would take too long. A grid
 * is cut along each axis on which it exceeds the device's limit. */
static const uint64_t MOST_PIECES = 1 << 18;

static int check_grid(const struct sp_egl *dev, const struct sp_egl_kernel *k, const struct sp_cmd_dispatch *d)
{
    uint64_t pieces = 1;
    if (memcmp(d->group_size, k->group_size, sizeof k->group_size) || d->shared_nbytes)
        return -EINVAL;
    for (int i = 0; i < 3; i++) {
        uint64_t most = dev->info.max_groups[i];
        if (d->groups[i] > most && k->at_offset < 0)
            return -E2BIG;
        if (d->groups[i])
            pieces *= (d->groups[i] + most - 1) / most;
    }
    return pieces > MOST_PIECES ? -E2BIG : 0;
}

static int check_pointer(const struct sp_egl *dev, uint64_t address, uint64_t covered, int used)
{
    uint64_t offset;
    int rc;
    if (address == 0)
        return 0; /* null is allowed here: sp_signature_check has checked that */
    const struct sp_egl_buffer *b = sp_egl_find(dev, address, covered == UINT64_MAX ? 0 : covered, &offset, &rc);
    if (!b)
        return rc;
    if (!used)
        return 0;
    uint64_t bytes = covered == UINT64_MAX ? atomic_load(&b->nbytes) - offset : covered;
    if (offset % dev->info.offset_alignment)
        return -EADDRNOTAVAIL;
    return bytes > dev->info.max_block_nbytes ? -EFBIG : 0;
}

int sp_egl_check_dispatch(const struct sp_egl *dev, const void *record, size_t nbytes)
{
    const struct sp_cmd_dispatch *d = record;
    if (!sp_dispatch_whole(record, nbytes))
        return -EINVAL;
    const struct sp_egl_kernel *k = (const void *)(uintptr_t)d->kernel;
    if (!k || k->magic != SP_EGL_KERNEL_MAGIC || k->dev != dev)
        return -EINVAL;
    if (!sp_dispatch_fits(d, &k->sig))
        return -EINVAL;
    int rc = check_grid(dev, k, d);
    if (rc == 0)
        rc = sp_signature_check(&k->sig, d + 1, NULL, NULL);
    const unsigned char *args = (const unsigned char *)(d + 1);
    const unsigned char *covered = args + d->args_nbytes;
    for (uint32_t i = 0; rc == 0 && i < k->sig.npointers; i++) {
        uint64_t address, bytes;
        memcpy(&address, args + k->pointer_at[i], 8);
        memcpy(&bytes, covered + 8 * i, 8);
        rc = check_pointer(dev, address, bytes, k->used[i]);
    }
    return rc;
}

static int check_range(const struct sp_egl *dev, uint64_t address, uint64_t nbytes)
{
    uint64_t offset;
    int rc;
    sp_egl_find(dev, address, nbytes, &offset, &rc);
    return rc;
}

static int check_one(const struct sp_egl *dev, const struct sp_cmd *head)
{
    const void *record = head;
    switch (head->kind) {
    case SP_CMD_DISPATCH:
        return sp_egl_check_dispatch(dev, head, head->nbytes);
    case SP_CMD_COPY: {
        const struct sp_cmd_copy *c = record;
        int rc = check_range(dev, c->dst, c->count);
        return rc ? rc : check_range(dev, c->src, c->count);
    }
    case SP_CMD_FILL:
        return check_range(dev, ((const struct sp_cmd_fill *)record)->dst, ((const struct sp_cmd_fill *)record)->count);
    case SP_CMD_TIMESTAMP:
        return check_range(dev, ((const struct sp_cmd_timestamp *)record)->slot, 8);
    case SP_CMD_WAIT: {
        const struct sp_cmd_wait *w = record;
        const struct sp_egl_queue *other = (const void *)(uintptr_t)w->queue;
        return other && other->dev == dev && w->value <= sp_queue_newest(&other->common) ? 0 : -EINVAL;
    }
    default:
        return 0;
    }
}

int sp_egl_check_records(const struct sp_egl *dev, const void *records, size_t nbytes)
{
    int rc = sp_cmd_validate(records, nbytes, NULL);
    const unsigned char *p = records;
    for (size_t at = 0; rc == 0 && at < nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        rc = check_one(dev, head);
        at += head->nbytes;
    }
    return rc;
}

int sp_egl_check(struct sp_egl *dev, const void *records, size_t nbytes)
{
    int rc = sp_egl_enter(dev);
    if (rc)
        return rc;
    rc = sp_egl_check_records(dev, records, nbytes);
    sp_egl_leave(dev);
    return rc;
}
