/* Maps instructions to functions. It puts the lists of all families into one array, by enum sp_op,
 * with lane loops for the best instruction set of this host. */
#include "table.h"
#include "emu/ops/poison/op_kind.h"
#include "families.h"
#include "include/sp_emu_wave.h"
#include <pthread.h>

static sp_wave_fn functions[SP_OP_NUM];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void add(const struct sp_wave_op *list, uint8_t what)
{
    for (; list->fn; list++) {
        functions[list->op] = list->fn;
        sp_op_kind_set(list->op, what);
    }
}

static void fill(void)
{
    const struct sp_wave_op *const *lanes = sp_wave_lanes_base;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
        lanes = sp_wave_lanes_v3;
#endif
    for (; *lanes; lanes++) add(*lanes, SP_KIND_VECTOR | SP_KIND_ALU);
    add(sp_wave_sop1, SP_KIND_ALU);
    add(sp_wave_sop2, SP_KIND_ALU);
    add(sp_wave_control, SP_KIND_SCALAR);
    add(sp_wave_smem, SP_KIND_SCALAR);
    add(sp_wave_flat, SP_KIND_VECTOR);
    add(sp_wave_buffer, SP_KIND_VECTOR);
    add(sp_wave_typed, SP_KIND_VECTOR);
    add(sp_wave_image, SP_KIND_VECTOR);
    add(sp_wave_ds, SP_KIND_VECTOR);
    add(sp_wave_ds_atomic, SP_KIND_VECTOR);
    add(sp_wave_matrix, SP_KIND_VECTOR | SP_KIND_ALU | SP_KIND_MATRIX);
    add(sp_wave_rare, SP_KIND_VECTOR | SP_KIND_ALU);
    add(sp_wave_sfloat, SP_KIND_ALU);
}

sp_wave_fn sp_wave_function(uint32_t op)
{
    pthread_once(&once, fill);
    return op < SP_OP_NUM ? functions[op] : NULL;
}

int sp_emu_op_modelled(uint32_t op)
{
    return sp_wave_function(op) != NULL;
}
