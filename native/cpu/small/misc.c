/* Two kernels for measurements: noop for the cost of a launch, busy_u32 for a known time. */
#include "core/args.h"
#include "cpu/runtime/kernel.h"

sp_grid_fn sp_noop_ref;
sp_grid_fn sp_busy_u32_ref;

void sp_noop_ref(const void *args, const uint32_t group[3], const uint32_t group_size[3])
{
    (void)args;
    (void)group;
    (void)group_size;
}

/* Each step of the loop needs the result of the step before, so no step can be vectorised or
 * skipped. Every group computes all `iters` steps. */
void sp_busy_u32_ref(const void *args, const uint32_t group[3], const uint32_t group_size[3])
{
    const struct sp_args_busy_u32 *const v = args;
    uint32_t x = 1;
    (void)group;
    (void)group_size;
    for (uint32_t i = 0; i < v->iters; i++)
        x = 1664525u * x + 1013904223u;
    __atomic_store_n(v->y, x, __ATOMIC_RELAXED);
}
