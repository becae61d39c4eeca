/* map_*: a postfix program a step at a time for each element; the language is that of native/include/sp_map.h. A program
 * that makes no sense is what it would be on a GPU that checks nothing: here a failed launch. Any grid will do. */
#include "kernels.h"

#include "include/sp_map.h"

#include <math.h>

#define MAP(name, T, STEP)                                                                                             \
    struct name##_args {                                                                                               \
        T *y;                                                                                                          \
        const T *x[SP_MAP_INPUTS];                                                                                     \
        const uint32_t *program;                                                                                       \
        const T *consts;                                                                                               \
        uint32_t nops, nconsts, n;                                                                                     \
    };                                                                                                                 \
    static int one_##name(const struct name##_args *v, uint64_t i)                                                     \
    {                                                                                                                  \
        T stack[SP_MAP_STACK];                                                                                         \
        int depth = 0;                                                                                                 \
        for (uint32_t s = 0; s < v->nops; s++) {                                                                       \
            const uint32_t op = v->program[s] & 0xff, operand = v->program[s] >> 8;                                    \
            if (op == SP_MAP_INPUT || op == SP_MAP_CONST) {                                                            \
                if (depth == SP_MAP_STACK || operand >= (op == SP_MAP_INPUT ? SP_MAP_INPUTS : v->nconsts) ||           \
                    (op == SP_MAP_INPUT && !v->x[operand]))                                                            \
                    return CUDA_ERROR_LAUNCH_FAILED;                                                                   \
                stack[depth++] = op == SP_MAP_INPUT ? v->x[operand][i] : v->consts[operand];                           \
                continue;                                                                                              \
            }                                                                                                          \
            if (op == SP_MAP_WHERE && depth > 2) {                                                                     \
                depth -= 2;                                                                                            \
                stack[depth - 1] = stack[depth - 1] != 0 ? stack[depth] : stack[depth + 1];                            \
                continue;                                                                                              \
            }                                                                                                          \
            const int takes = STEP##_takes(op);                                                                        \
            if (takes == 0 || depth < takes)                                                                           \
                return CUDA_ERROR_LAUNCH_FAILED;                                                                       \
            depth -= takes - 1;                                                                                        \
            stack[depth - 1] = (T)STEP(op, stack[depth - 1], takes == 2 ? stack[depth] : 0);                           \
        }                                                                                                              \
        if (depth != 1)                                                                                                \
            return CUDA_ERROR_LAUNCH_FAILED;                                                                           \
        v->y[i] = stack[0];                                                                                            \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static int run_##name(const struct fk_launch *l)                                                                   \
    {                                                                                                                  \
        const struct name##_args v = *(const struct name##_args *)l->args;                                             \
        FK_NEED(v.y, v.n);                                                                                             \
        FK_NEED(v.program, v.nops);                                                                                    \
        if (v.nconsts)                                                                                                 \
            FK_NEED(v.consts, v.nconsts);                                                                              \
        for (int k = 0; k < SP_MAP_INPUTS; k++)                                                                        \
            if (v.x[k])                                                                                                \
                FK_NEED(v.x[k], v.n);                                                                                  \
        for (uint64_t i = 0; i < v.n; i++) {                                                                           \
            const int rc = one_##name(&v, i);                                                                          \
            if (rc != 0)                                                                                               \
                return rc;                                                                                             \
        }                                                                                                              \
        return 0;                                                                                                      \
    }

/* How many values a step takes; 0: no such step. */
static int real_takes(uint32_t op)
{
    switch (op) {
    case SP_MAP_ADD:
    case SP_MAP_SUB:
    case SP_MAP_MUL:
    case SP_MAP_DIV:
    case SP_MAP_MIN:
    case SP_MAP_MAX:
    case SP_MAP_POW:
    case SP_MAP_LT:
    case SP_MAP_LE:
    case SP_MAP_GT:
    case SP_MAP_GE:
    case SP_MAP_EQ:
    case SP_MAP_NE: return 2;
    default: return op >= SP_MAP_NEG && op < SP_MAP_WHERE ? 1 : 0;
    }
}

/* In double for both types: a float result is rounded once. The arithmetic of floats in double, then rounded, is that
 * of floats. */
static double real(uint32_t op, double a, double b)
{
    switch (op) {
    case SP_MAP_ADD: return a + b;
    case SP_MAP_SUB: return a - b;
    case SP_MAP_MUL: return a * b;
    case SP_MAP_DIV: return a / b;
    case SP_MAP_NEG: return -a;
    case SP_MAP_ABS: return fabs(a);
    case SP_MAP_RELU: return a < 0 ? 0 : a;
    case SP_MAP_EXP: return exp(a);
    case SP_MAP_LOG: return log(a);
    case SP_MAP_SQRT: return sqrt(a);
    case SP_MAP_TANH: return tanh(a);
    case SP_MAP_SIGMOID: return 1 / (1 + exp(-a));
    case SP_MAP_MIN: return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    case SP_MAP_MAX: return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    case SP_MAP_POW: return pow(a, b);
    case SP_MAP_SIN: return sin(a);
    case SP_MAP_COS: return cos(a);
    case SP_MAP_FLOOR: return floor(a);
    case SP_MAP_LT: return a < b;
    case SP_MAP_LE: return a <= b;
    case SP_MAP_GT: return a > b;
    case SP_MAP_GE: return a >= b;
    case SP_MAP_EQ: return a == b;
    case SP_MAP_NE: return a != b;
    default: return a * a; /* SQUARE */
    }
}

static int whole_takes(uint32_t op)
{
    switch (op) {
    case SP_MAP_ADD:
    case SP_MAP_SUB:
    case SP_MAP_MUL:
    case SP_MAP_MIN:
    case SP_MAP_MAX:
    case SP_MAP_LT:
    case SP_MAP_LE:
    case SP_MAP_GT:
    case SP_MAP_GE:
    case SP_MAP_EQ:
    case SP_MAP_NE: return 2;
    case SP_MAP_NEG:
    case SP_MAP_ABS:
    case SP_MAP_RELU:
    case SP_MAP_SQUARE: return 1;
    default: return 0;
    }
}

static int32_t whole(uint32_t op, int32_t a, int32_t b)
{
    const uint32_t ua = (uint32_t)a, ub = (uint32_t)b;
    switch (op) {
    case SP_MAP_ADD: return (int32_t)(ua + ub);
    case SP_MAP_SUB: return (int32_t)(ua - ub);
    case SP_MAP_MUL: return (int32_t)(ua * ub);
    case SP_MAP_MIN: return a < b ? a : b;
    case SP_MAP_MAX: return a > b ? a : b;
    case SP_MAP_NEG: return (int32_t)(0u - ua);
    case SP_MAP_ABS: return a < 0 ? (int32_t)(0u - ua) : a;
    case SP_MAP_RELU: return a < 0 ? 0 : a;
    case SP_MAP_LT: return a < b;
    case SP_MAP_LE: return a <= b;
    case SP_MAP_GT: return a > b;
    case SP_MAP_GE: return a >= b;
    case SP_MAP_EQ: return a == b;
    case SP_MAP_NE: return a != b;
    default: return (int32_t)(ua * ua); /* SQUARE */
    }
}

MAP(map_f32, float, real)
MAP(map_f64, double, real)
MAP(map_i32, int32_t, whole)

#define ROW(name) {#name, "pppppppppppuuu", run_##name, {0}}
struct fk_kernel fk_kernels_map[] = {ROW(map_f32), ROW(map_f64), ROW(map_i32), {0}};
