/* Maps instructions to functions. It puts the lists of all families into one array, by enum sp_op,
 * with lane loops for the best instruction set of this host. */
#include "table.h"
#include "families.h"
#include "include/sp_emu_wave.h"
#include <pthread.h>

static sp_wave_fn functions[SP_OP_NUM];
static uint8_t is[SP_OP_NUM];

enum { SCALAR = 0, VECTOR = 1, ALU = 2, MATRIX = 4 };
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void add(const struct sp_wave_op *list, uint8_t what)
{
    for (; list->fn; list++) {
        functions[list->op] = list->fn;
        is[list->op] = what;
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
    for (; *lanes; lanes++) add(*lanes, VECTOR | ALU);
    add(sp_wave_sop1, ALU);
    add(sp_wave_sop2, ALU);
    add(sp_wave_control, SCALAR);
    add(sp_wave_smem, SCALAR);
    add(sp_wave_flat, VECTOR);
    add(sp_wave_buffer, VECTOR);
    add(sp_wave_typed, VECTOR);
    add(sp_wave_image, VECTOR);
    add(sp_wave_ds, VECTOR);
    add(sp_wave_ds_atomic, VECTOR);
    add(sp_wave_matrix, VECTOR | ALU | MATRIX);
    add(sp_wave_rare, VECTOR | ALU);
    add(sp_wave_sfloat, ALU);
}

sp_wave_fn sp_wave_function(uint32_t op)
{
    pthread_once(&once, fill);
    return op < SP_OP_NUM ? functions[op] : NULL;
}

bool sp_wave_op_is_vector(uint32_t op)
{
    return op < SP_OP_NUM && is[op] & VECTOR;
}

bool sp_wave_op_is_alu(uint32_t op)
{
    return op < SP_OP_NUM && is[op] & ALU;
}

bool sp_wave_op_is_matrix(uint32_t op)
{
    return op < SP_OP_NUM && is[op] & MATRIX;
}

int sp_emu_op_modelled(uint32_t op)
{
    return sp_wave_function(op) != NULL;
}
