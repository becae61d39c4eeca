/* y[i] = a postfix program over x0[i] to x7[i] and constants: the language of sparkle_drv's sp_map.h.
 *
 * What a checked program cannot do (a missing input, a stack too deep) reads as 0 and overwrites
 * nothing else. */
enum { INPUT = 1, CONST, ADD, SUB, MUL, DIV, NEG, ABS, RELU, EXP, LOG, SQRT, TANH, SIGMOID, MIN, MAX, POW, SIN, COS,
       FLOOR, SQUARE, LT, LE, GT, GE, EQ, NE, WHERE };
#define STACK 32

static bool is_binary(u32 op)
{
    return (op >= ADD && op <= DIV) || (op >= MIN && op <= POW) || (op >= LT && op <= NE);
}

#define COMPARED                                                                                   \
    case LT: return a < b;                                                                         \
    case LE: return a <= b;                                                                        \
    case GT: return a > b;                                                                         \
    case GE: return a >= b;                                                                        \
    case EQ: return a == b;                                                                        \
    case NE: return a != b;                                                                        \
    default: return b;

#define STEP(T)                                                                                    \
    static T step_##T(u32 op, T a, T b)                                                            \
    {                                                                                              \
        switch (op) {                                                                              \
        case ADD: return a + b;                                                                    \
        case SUB: return a - b;                                                                    \
        case MUL: return a * b;                                                                    \
        case DIV: return a / b;                                                                    \
        case MIN: return min_of_##T(a, b);                                                         \
        case MAX: return max_of_##T(a, b);                                                         \
        case POW: return pow(a, b);                                                                \
        case NEG: return -b;                                                                       \
        case ABS: return fabs(b);                                                                  \
        case RELU: return relu_of_##T(b);                                                          \
        case EXP: return exp(b);                                                                   \
        case LOG: return log(b);                                                                   \
        case SQRT: return sqrt(b);                                                                 \
        case TANH: return tanh(b);                                                                 \
        case SIGMOID: return sigmoid_of_##T(b);                                                    \
        case SIN: return sin(b);                                                                   \
        case COS: return cos(b);                                                                   \
        case FLOOR: return floor(b);                                                               \
        case SQUARE: return b * b;                                                                 \
        COMPARED                                                                                   \
        }                                                                                          \
    }
STEP(f32)
WITH_F64(STEP(f64))

/* Wraps around. */
static i32 step_i32(u32 op, i32 a, i32 b)
{
    switch (op) {
    case ADD: return (i32)((u32)a + (u32)b);
    case SUB: return (i32)((u32)a - (u32)b);
    case MUL: return (i32)((u32)a * (u32)b);
    case MIN: return a < b ? a : b;
    case MAX: return a > b ? a : b;
    case NEG: return (i32)-(u32)b;
    case ABS: return b < 0 ? (i32)-(u32)b : b;
    case RELU: return b < 0 ? 0 : b;
    case SQUARE: return (i32)((u32)b * (u32)b);
    COMPARED
    }
}

#define MAP(T)                                                                                     \
    __kernel void map_##T(OUT(T) y, IN(T) x0, IN(T) x1, IN(T) x2, IN(T) x3, IN(T) x4, IN(T) x5,    \
                          IN(T) x6, IN(T) x7, IN(u32) program, IN(T) consts, u32 nops,             \
                          u32 nconsts, u32 n)                                                      \
    {                                                                                              \
        T stack[STACK];                                                                            \
        const size_t i = get_global_id(0);                                                         \
        u32 depth = 0;                                                                             \
        T top = 0;                                                                                 \
        if (i >= n) return;                                                                        \
        for (u32 s = 0; s < nops; s++) {                                                           \
            const u32 op = program[s] & 0xff, operand = program[s] >> 8;                           \
            if (op == INPUT || op == CONST) {                                                      \
                if (depth) stack[(depth - 1) % STACK] = top;                                       \
                depth++;                                                                           \
                IN(T) x = operand == 0   ? x0                                                      \
                          : operand == 1 ? x1                                                      \
                          : operand == 2 ? x2                                                      \
                          : operand == 3 ? x3                                                      \
                          : operand == 4 ? x4                                                      \
                          : operand == 5 ? x5                                                      \
                          : operand == 6 ? x6                                                      \
                          : operand == 7 ? x7                                                      \
                                         : (__global const T *)0;                                  \
                if (op == CONST)                                                                   \
                    top = operand < nconsts && consts ? consts[operand] : 0;                       \
                else                                                                               \
                    top = x ? x[i] : 0;                                                            \
            } else if (op == WHERE) {                                                              \
                if (depth > 2) {                                                                   \
                    depth -= 2;                                                                    \
                    top = stack[(depth - 1) % STACK] != 0 ? stack[depth % STACK] : top;            \
                }                                                                                  \
            } else {                                                                               \
                T left = 0;                                                                        \
                if (is_binary(op) && depth > 1) {                                                  \
                    depth--;                                                                       \
                    left = stack[(depth - 1) % STACK];                                             \
                }                                                                                  \
                top = step_##T(op, left, top);                                                     \
            }                                                                                      \
        }                                                                                          \
        y[i] = top;                                                                                \
    }
MAP(f32)
MAP(i32)
WITH_F64(MAP(f64))
