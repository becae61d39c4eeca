/* The two languages of maps (elementwise expressions).
 *
 * Portable: the map_* kernels run a postfix program, one uint32_t per step: op | operand << 8. A
 * program leaves exactly one value on the stack. ops/expression/program.py writes such programs,
 * and every backend runs them.
 *
 * Lowered: the cpu's kernel fused_map runs instructions over registers, struct sp_map_words below.
 * ops/expression/lower.py writes them. */
#ifndef SP_MAP_H
#define SP_MAP_H
#include "sp_base.h"

enum sp_map_op {
    SP_MAP_INPUT = 1, /* pushes an input; the operand is its index */
    SP_MAP_CONST = 2, /* pushes a constant; the operand is its index */
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
    SP_MAP_MIN = 15, /* MIN, MAX and RELU propagate NaN */
    SP_MAP_MAX = 16,
    SP_MAP_POW = 17,
    SP_MAP_SIN = 18,
    SP_MAP_COS = 19,
    SP_MAP_FLOOR = 20,
    SP_MAP_SQUARE = 21,
    /* LT to NE, the comparisons, give 1 or 0 in the type of their operands. EQ is 0 if an operand
     * is NaN. */
    SP_MAP_LT = 22,
    SP_MAP_LE = 23,
    SP_MAP_GT = 24,
    SP_MAP_GE = 25,
    SP_MAP_EQ = 26,
    SP_MAP_NE = 27,
    SP_MAP_WHERE = 28, /* operands: condition, value if it is nonzero, value if it is 0 */
    SP_MAP_OPS = 29,   /* one more than the last op of the portable language of maps */
    /* The ops from here on exist only in the lowered language, which the cpu's kernel fused_map
     * runs. */
    SP_MAP_FMA = 29,     /* a * b + c, rounded once if the instruction set can */
    SP_MAP_FMS = 30,     /* a * b - c */
    SP_MAP_FNMA = 31,    /* c - a * b */
    /* converts operand a to the type of the instruction; operand c is the type of a; the rules are
     * at enum sp_map_kind below */
    SP_MAP_CONVERT = 32,
    SP_MAP_LOWERED_OPS = 33
};

/* Limits of a program in the portable language of maps: how many inputs and stack entries it may
 * have. The i32 kernel has only INPUT CONST ADD SUB MUL NEG ABS RELU MIN MAX SQUARE, the
 * comparisons and WHERE. Its arithmetic wraps around. */
enum sp_map_limits { SP_MAP_INPUTS = 8, SP_MAP_STACK = 32 };

/* Element types in the lowered language of maps, which the cpu's kernel fused_map runs. An
 * instruction is a struct sp_map_words. The last instruction writes the result to its register. An
 * operand is kind << 28 | index, where `kind` is an enum sp_map_kind. A constant has eight bytes,
 * which begin with a value of the operand's type. */
enum sp_map_type {
    SP_MAP_F32 = 0,
    SP_MAP_F64 = 1,
    SP_MAP_I32 = 2,
    SP_MAP_I64 = 3,
    SP_MAP_U8 = 4,
    SP_MAP_BOOL = 5, /* one byte, 0 or 1 */
    /* F16 and BF16 are storage types: CONVERT reads them as f32, and rounds f32 to them, to nearest
     * even. */
    SP_MAP_F16 = 6,
    SP_MAP_BF16 = 7,
    SP_MAP_TYPES = 8
};
/* Rules of the op SP_MAP_CONVERT. Integer to integer wraps around. f64 to u8 truncates, then wraps
 * around. Any other conversion of a floating-point type to an integer type gives a truth value, 1
 * if the number is not 0, else 0. All conversions to bool give truth values, too. */
/* Kinds of operands: a register, an input or a constant. */
enum sp_map_kind { SP_MAP_KIND_REGISTER = 0, SP_MAP_KIND_INPUT = 1, SP_MAP_KIND_CONST = 2 };
enum sp_map_lowered { SP_MAP_INSN_WORDS = 4, SP_MAP_REGISTERS = 4096, SP_MAP_DIMS = 8 };

struct sp_map_words {
    /* op | type << 8 | register << 16, where `register` gets the instruction's result */
    uint32_t head;
    uint32_t a, b, c;
};

/* Reductions that a fused map can apply, called folds here. A fold reduces a map over [outer, n,
 * inner] along n to one result for each [outer, inner]. */
enum sp_map_fold {
    SP_MAP_FOLD_NONE = 0,
    SP_MAP_FOLD_SUM = 1,
    SP_MAP_FOLD_MAX = 2,
    SP_MAP_FOLD_MIN = 3,
    SP_MAP_FOLD_MEAN = 4,
    SP_MAP_FOLDS = 5
};

/* The geometry of a fused map is an array of int64. It begins with the values of this enum, then
 * the `ndim` sizes of the iteration space. Then follow, for the output y and for each input x0 to
 * x7: a type, the byte offset of the first element from the pointer, and `ndim` strides in bytes.
 * If the fused map also reduces (enum sp_map_fold), it writes [outer, inner] contiguously, and y's
 * strides are 0. */
enum sp_map_geometry {
    SP_MAP_GEO_NDIM = 0,
    SP_MAP_GEO_FOLD = 1,
    SP_MAP_GEO_OUTER = 2,
    SP_MAP_GEO_N = 3,
    SP_MAP_GEO_INNER = 4,
    /* 1: the output y is larger than the caches and is not read again soon */
    SP_MAP_GEO_STREAM = 5,
    SP_MAP_GEO_HEAD = 6
};
#endif
