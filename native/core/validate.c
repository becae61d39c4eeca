/* Well-formedness of an array of command records, checked once when it is submitted. */
#include "include/sp_cmd.h"

#include <errno.h>
#include <string.h>

static size_t fixed_nbytes(uint32_t kind)
{
    switch (kind) {
    case SP_CMD_DISPATCH:
        return sizeof(struct sp_cmd_dispatch);
    case SP_CMD_COPY:
        return sizeof(struct sp_cmd_copy);
    case SP_CMD_FILL:
        return sizeof(struct sp_cmd_fill);
    case SP_CMD_BARRIER:
        return sizeof(struct sp_cmd_barrier);
    case SP_CMD_WAIT:
        return sizeof(struct sp_cmd_wait);
    case SP_CMD_TIMESTAMP:
        return sizeof(struct sp_cmd_timestamp);
    default:
        return 0;
    }
}

static int fill_ok(const void *record)
{
    struct sp_cmd_fill fill;
    memcpy(&fill, record, sizeof fill);
    uint32_t p = fill.pattern_nbytes;
    return (p == 1 || p == 2 || p == 4) && fill.count % p == 0;
}

static int dispatch_ok(const void *record)
{
    struct sp_cmd_dispatch d;
    memcpy(&d, record, sizeof d);
    return d.kernel != 0 && d.args_nbytes % 8 == 0 && d.args_nbytes <= d.nbytes - sizeof d;
}

int sp_cmd_validate(const void *records, size_t nbytes, size_t *at)
{
    const unsigned char *bytes = records;
    size_t offset = 0;
    size_t nowhere;
    if (!at)
        at = &nowhere;
    while (offset < nbytes) {
        struct sp_cmd head;
        *at = offset;
        if (nbytes - offset < sizeof head)
            return -EINVAL;
        memcpy(&head, bytes + offset, sizeof head);
        size_t fixed = fixed_nbytes(head.kind);
        if (fixed == 0 || head.nbytes < fixed || head.nbytes % 8 || head.nbytes > nbytes - offset)
            return -EINVAL;
        if (head.kind == SP_CMD_FILL && !fill_ok(bytes + offset))
            return -EINVAL;
        if (head.kind == SP_CMD_DISPATCH && !dispatch_ok(bytes + offset))
            return -EINVAL;
        offset += head.nbytes;
    }
    return 0;
}
