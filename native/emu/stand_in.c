/* Stands in for the waves until native/emu/wave is there; then this file goes. Weak: the real one replaces it. */
#include "exec.h"

/* Launches nothing. */
__attribute__((weak)) int sp_emu_dispatch(const struct sp_emu_dispatch *d, struct sp_emu_exec *x)
{
    (void)d, (void)x;
    return 0;
}
