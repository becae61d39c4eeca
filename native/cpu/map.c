/* Checks postfix programs for the map kernels; running them is map.inc. */
#include "map.h"

#include <errno.h>

/* Values an op takes; it always leaves one. -1: no such op. */
static int operands_of(uint32_t op, int integer)
{
    switch (op) {
    case SP_MAP_INPUT:
    case SP_MAP_CONST:
        return 0;
    case SP_MAP_NEG:
    case SP_MAP_ABS:
    case SP_MAP_RELU:
    case SP_MAP_SQUARE:
        return 1;
    case SP_MAP_ADD:
    case SP_MAP_SUB:
    case SP_MAP_MUL:
    case SP_MAP_MIN:
    case SP_MAP_MAX:
        return 2;
    case SP_MAP_EXP:
    case SP_MAP_LOG:
    case SP_MAP_SQRT:
    case SP_MAP_TANH:
    case SP_MAP_SIGMOID:
    case SP_MAP_SIN:
    case SP_MAP_COS:
    case SP_MAP_FLOOR:
        return integer ? -1 : 1;
    case SP_MAP_DIV:
    case SP_MAP_POW:
        return integer ? -1 : 2;
    default:
        return -1;
    }
}

int sp_map_check(const uint32_t *program, uint32_t nops, const void *const *x, uint32_t nconsts, int integer)
{
    int depth = 0;
    int deepest = 0;
    for (uint32_t i = 0; i < nops; i++) {
        const uint32_t op = program[i] & 0xff;
        const uint32_t operand = program[i] >> 8;
        const int takes = operands_of(op, integer);
        if (takes < 0 || depth < takes)
            return -EINVAL;
        if (op == SP_MAP_INPUT && (operand >= SP_MAP_INPUTS || !x[operand]))
            return -EINVAL;
        if (op == SP_MAP_CONST && operand >= nconsts)
            return -EINVAL;
        depth += 1 - takes;
        if (depth > SP_MAP_STACK)
            return -EINVAL;
        if (depth > deepest)
            deepest = depth;
    }
    return depth == 1 ? deepest : -EINVAL;
}
