/* Stand-ins for rooms that are not built yet, each weak: the real one replaces it. This file goes when none is left. */
#include "exec.h"
#include <errno.h>

#define STAND_IN __attribute__((weak))

STAND_IN int sp_emu_fault_set(struct sp_emu_fault *fault, uint32_t kind, int error, const char *format, ...)
{
    (void)format;
    fault->kind = fault->kind == SP_FAULT_NONE ? kind : fault->kind;
    return error;
}

STAND_IN uint8_t *sp_emu_tlb_miss(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    (void)tlb, (void)va, (void)access;
    return NULL;
}

STAND_IN int sp_emu_read(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes)
{
    (void)tlb, (void)va, (void)to, (void)nbytes;
    return -EFAULT;
}

STAND_IN int sp_emu_write(struct sp_emu_tlb *tlb, uint64_t va, const void *from, size_t nbytes)
{
    (void)tlb, (void)va, (void)from, (void)nbytes;
    return -EFAULT;
}

/* Runs nothing. */
STAND_IN int sp_emu_dispatch(const struct sp_emu_dispatch *d, struct sp_emu_exec *x)
{
    (void)d, (void)x;
    return 0;
}
