/* Stands in for the waves until native/emu/wave is there; then this file goes. */
#include "exec.h"
#include <errno.h>

__attribute__((weak)) int sp_emu_dispatch(const struct sp_emu_dispatch *d, struct sp_emu_exec *x)
{
    return sp_emu_fault_set(&x->fault, SP_FAULT_OPCODE, -EFAULT, "no waves yet (code at %#llx)", (unsigned long long)d->code);
}
