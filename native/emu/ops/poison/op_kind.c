/* The kind of each instruction, by enum sp_op. */
#include "op_kind.h"

#include "emu/gen/isa_ops.h"

static uint8_t is[SP_OP_NUM];

void sp_op_kind_set(uint32_t op, uint8_t kind)
{
    is[op] = kind;
}

bool sp_wave_op_is_vector(uint32_t op)
{
    return op < SP_OP_NUM && is[op] & SP_KIND_VECTOR;
}

bool sp_wave_op_is_alu(uint32_t op)
{
    return op < SP_OP_NUM && is[op] & SP_KIND_ALU;
}

bool sp_wave_op_is_matrix(uint32_t op)
{
    return op < SP_OP_NUM && is[op] & SP_KIND_MATRIX;
}
