/* Checks once, at the submission, that an array of command records is well formed. */
#include "include/sp_cmd.h"

#include <errno.h>

static const size_t least_nbytes[] = {
    [SP_CMD_DISPATCH] = sizeof(struct sp_cmd_dispatch), [SP_CMD_COPY] = sizeof(struct sp_cmd_copy),
    [SP_CMD_FILL] = sizeof(struct sp_cmd_fill),         [SP_CMD_BARRIER] = sizeof(struct sp_cmd_barrier),
    [SP_CMD_WAIT] = sizeof(struct sp_cmd_wait),         [SP_CMD_TIMESTAMP] = sizeof(struct sp_cmd_timestamp),
};

static int fill_ok(const struct sp_cmd_fill *fill)
{
    const uint32_t p = fill->pattern_nbytes;
    return (p == 1 || p == 2 || p == 4) && fill->count % p == 0;
}

static int dispatch_ok(const struct sp_cmd_dispatch *d)
{
    return d->kernel != 0 && d->args_nbytes % 8 == 0 && d->args_nbytes <= d->nbytes - sizeof *d;
}

int sp_cmd_validate(const void *records, size_t nbytes, size_t *at)
{
    size_t nowhere, offset = 0;
    if (!at)
        at = &nowhere;
    *at = 0;
    if ((uintptr_t)records % 8)
        return -EINVAL;
    while (offset < nbytes) {
        const void *const record = (const char *)records + offset;
        const struct sp_cmd *const head = record;
        *at = offset;
        if (nbytes - offset < sizeof *head || head->nbytes % 8 || head->nbytes > nbytes - offset)
            return -EINVAL;
        if (head->kind < SP_CMD_DISPATCH || head->kind > SP_CMD_TIMESTAMP || head->nbytes < least_nbytes[head->kind])
            return -EINVAL;
        if ((head->kind == SP_CMD_FILL && !fill_ok(record)) || (head->kind == SP_CMD_DISPATCH && !dispatch_ok(record)))
            return -EINVAL;
        offset += head->nbytes;
    }
    return 0;
}
