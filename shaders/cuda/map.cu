/* y[i] = a postfix program over x0[i] to x7[i] and constants: the language of native/include/sp_map.h. Groups of 64.
 *
 * The program is the same for all threads: its branches diverge nowhere. The stack is in shared memory, a column a
 * thread, its top in a register. What a checked program cannot do (a missing input, a stack too deep) reads as 0 and
 * overwrites nothing else. */
#include "kernel.h"
#include "vmath.h"

enum : u32 { INPUT = 1, CONST, ADD, SUB, MUL, DIV, NEG, ABS, RELU, EXP, LOG, SQRT, TANH, SIGMOID, MIN, MAX, POW, SIN,
             COS, FLOOR, SQUARE, LT, LE, GT, GE, EQ, NE, WHERE };
enum : u32 { GROUP = 64, STACK = 32 };

DEVICE bool is_binary(u32 op) { return (op >= ADD && op <= DIV) || (op >= MIN && op <= POW) || (op >= LT && op <= NE); }

template <class T> DEVICE T step(u32 op, T a, T b)
{
    switch (op) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return a / b;
    case MIN: return sp_min(a, b);
    case MAX: return sp_max(a, b);
    case POW: return sp_pow(a, b);
    case NEG: return -b;
    case ABS: return sp_abs(b);
    case RELU: return sp_relu(b);
    case EXP: return sp_exp(b);
    case LOG: return sp_log(b);
    case SQRT: return sp_sqrt(b);
    case TANH: return sp_tanh(b);
    case SIGMOID: return sp_sigmoid(b);
    case SIN: return sp_sin(b);
    case COS: return sp_cos(b);
    case FLOOR: return sp_floor(b);
    case SQUARE: return b * b;
    case LT: return a < b ? (T)1 : (T)0;
    case LE: return a <= b ? (T)1 : (T)0;
    case GT: return a > b ? (T)1 : (T)0;
    case GE: return a >= b ? (T)1 : (T)0;
    case EQ: return a == b ? (T)1 : (T)0;
    case NE: return a != b ? (T)1 : (T)0;
    default: return b;
    }
}

/* Wraps around. */
template <> __device__ __forceinline__ i32 step<i32>(u32 op, i32 a, i32 b)
{
    switch (op) {
    case ADD: return (i32)((u32)a + (u32)b);
    case SUB: return (i32)((u32)a - (u32)b);
    case MUL: return (i32)((u32)a * (u32)b);
    case MIN: return sp_min(a, b);
    case MAX: return sp_max(a, b);
    case NEG: return (i32)-(u32)b;
    case ABS: return sp_abs(b);
    case RELU: return sp_relu(b);
    case SQUARE: return (i32)((u32)b * (u32)b);
    case LT: return a < b;
    case LE: return a <= b;
    case GT: return a > b;
    case GE: return a >= b;
    case EQ: return a == b;
    case NE: return a != b;
    default: return b;
    }
}

#define MAP(T)                                                                                                         \
    KERNEL(GROUP) map_##T(OUT(T) y, IN(T) x0, IN(T) x1, IN(T) x2, IN(T) x3, IN(T) x4, IN(T) x5, IN(T) x6, IN(T) x7,    \
                          IN(u32) program, IN(T) consts, u32 nops, u32 nconsts, u32 n)                                 \
    {                                                                                                                  \
        __shared__ T stack[STACK][GROUP];                                                                              \
        const u64 i = element(GROUP);                                                                                  \
        const u32 lane = threadIdx.x;                                                                                  \
        u32 depth = 0;                                                                                                 \
        T top = 0;                                                                                                     \
        if (i >= n) return;                                                                                            \
        for (u32 s = 0; s < nops; s++) {                                                                               \
            const u32 op = program[s] & 0xff, operand = program[s] >> 8;                                               \
            if (op == INPUT || op == CONST) {                                                                          \
                if (depth) stack[(depth - 1) % STACK][lane] = top;                                                     \
                depth++;                                                                                               \
                if (op == CONST) {                                                                                     \
                    top = operand < nconsts && consts ? consts[operand] : 0;                                           \
                } else {                                                                                               \
                    const T *x = operand == 0   ? x0                                                                   \
                                 : operand == 1 ? x1                                                                   \
                                 : operand == 2 ? x2                                                                   \
                                 : operand == 3 ? x3                                                                   \
                                 : operand == 4 ? x4                                                                   \
                                 : operand == 5 ? x5                                                                   \
                                 : operand == 6 ? x6                                                                   \
                                 : operand == 7 ? x7                                                                   \
                                                : (const T *)0;                                                        \
                    top = x ? x[i] : 0;                                                                                \
                }                                                                                                      \
            } else if (op == WHERE) {                                                                                  \
                if (depth > 2) {                                                                                       \
                    depth -= 2;                                                                                        \
                    top = stack[(depth - 1) % STACK][lane] != 0 ? stack[depth % STACK][lane] : top;                    \
                }                                                                                                      \
            } else {                                                                                                   \
                T left = 0;                                                                                            \
                if (is_binary(op) && depth > 1) {                                                                      \
                    depth--;                                                                                           \
                    left = stack[(depth - 1) % STACK][lane];                                                           \
                }                                                                                                      \
                top = step<T>(op, left, top);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
        y[i] = top;                                                                                                    \
    }
MAP(f32)
MAP(f64)
MAP(i32)
