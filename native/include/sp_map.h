/* The language of the map_* kernels: a postfix program, one uint32_t a step, step = op | operand << 8. A program leaves
 * exactly one value. ops/program.py writes programs, native/cpu/map.inc runs them. */
#ifndef SP_MAP_H
#define SP_MAP_H
#include "sp_base.h"

enum sp_map_op {
    SP_MAP_INPUT = 1, /* operand: which x */
    SP_MAP_CONST = 2, /* operand: which of consts */
    SP_MAP_ADD = 3,
    SP_MAP_SUB = 4,
    SP_MAP_MUL = 5,
    SP_MAP_DIV = 6,
    SP_MAP_NEG = 7,
    SP_MAP_ABS = 8,
    SP_MAP_RELU = 9,
    SP_MAP_EXP = 10,
    SP_MAP_LOG = 11,
    SP_MAP_SQRT = 12,
    SP_MAP_TANH = 13,
    SP_MAP_SIGMOID = 14,
    SP_MAP_MIN = 15, /* MIN, MAX and RELU: NaN wins */
    SP_MAP_MAX = 16,
    SP_MAP_POW = 17,
    SP_MAP_SIN = 18,
    SP_MAP_COS = 19,
    SP_MAP_FLOOR = 20,
    SP_MAP_SQUARE = 21,
    SP_MAP_OPS = 22 /* one past the last */
};

/* The i32 kernel knows INPUT CONST ADD SUB MUL NEG ABS RELU MIN MAX SQUARE and wraps around. */
enum sp_map_limits { SP_MAP_INPUTS = 8, SP_MAP_STACK = 32 };
#endif
