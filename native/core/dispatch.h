/* Checks of a dispatch record that every backend makes before it checks its own kernel and grid. */
#ifndef SP_CORE_DISPATCH_H
#define SP_CORE_DISPATCH_H
#include "include/sp_cmd.h"

#include <stddef.h>

/* Returns 1 if `record` is one complete dispatch record of `nbytes`, aligned for C. */
static inline int sp_dispatch_whole(const void *record, size_t nbytes)
{
    const struct sp_cmd_dispatch *d = record;
    return (uintptr_t)record % 8 == 0 && nbytes >= sizeof *d && d->kind == SP_CMD_DISPATCH && d->nbytes == nbytes;
}

/* Returns 1 if the record has the size that this signature needs: the packed arguments, and after
 * them eight bytes for the memory size of each pointer argument. */
static inline int sp_dispatch_fits(const struct sp_cmd_dispatch *d, const struct sp_signature *sig)
{
    return d->args_nbytes == sig->args_nbytes && d->nbytes - sizeof *d == d->args_nbytes + 8u * (size_t)sig->npointers;
}
#endif
