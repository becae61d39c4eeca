/* One thread, one element, in groups of 256: copy fill vecadd saxpy axpby, and functions of one number. */
#include "kernel.h"
#include "vmath.h"

enum : u32 { GROUP = 256 };

#define MOVES(T)                                                                                                       \
    KERNEL(GROUP) copy_##T(OUT(T) y, IN(T) x, u32 n)                                                                   \
    {                                                                                                                  \
        const u64 i = element(GROUP);                                                                                  \
        if (i < n) y[i] = x[i];                                                                                        \
    }                                                                                                                  \
    KERNEL(GROUP) fill_##T(OUT(T) y, T a, u32 n)                                                                       \
    {                                                                                                                  \
        const u64 i = element(GROUP);                                                                                  \
        if (i < n) y[i] = a;                                                                                           \
    }
MOVES(f32)
MOVES(f64)
MOVES(i32)

#define UNARY(name, T, value)                                                                                          \
    KERNEL(GROUP) name##_##T(OUT(T) y, IN(T) in, u32 n)                                                                \
    {                                                                                                                  \
        const u64 i = element(GROUP);                                                                                  \
        if (i >= n) return;                                                                                            \
        const T x = in[i];                                                                                             \
        y[i] = value;                                                                                                  \
    }
UNARY(relu, f32, sp_relu(x))
UNARY(relu, f64, sp_relu(x))
UNARY(relu, i32, sp_relu(x))
UNARY(abs, f32, sp_abs(x))
UNARY(abs, f64, sp_abs(x))
UNARY(abs, i32, sp_abs(x))
UNARY(neg, f32, -x)
UNARY(neg, f64, -x)
UNARY(neg, i32, (i32)-(u32)x)
UNARY(exp, f32, sp_exp(x))
UNARY(exp, f64, sp_exp(x))
UNARY(tanh, f32, sp_tanh(x))
UNARY(tanh, f64, sp_tanh(x))

#define VECADD(T, sum)                                                                                                 \
    KERNEL(GROUP) vecadd_##T(OUT(T) z, IN(T) x, IN(T) y, u32 n)                                                        \
    {                                                                                                                  \
        const u64 i = element(GROUP);                                                                                  \
        if (i < n) z[i] = sum;                                                                                         \
    }
VECADD(f32, x[i] + y[i])
VECADD(f64, x[i] + y[i])
VECADD(i32, (i32)((u32)x[i] + (u32)y[i]))

KERNEL(GROUP) saxpy_f32(OUT(f32) y, IN(f32) x, f32 a, u32 n)
{
    const u64 i = element(GROUP);
    if (i < n) y[i] = a * x[i] + y[i];
}

#define AXPBY(T)                                                                                                       \
    KERNEL(GROUP) axpby_##T(OUT(T) y, IN(T) x, T a, T b, u32 n)                                                        \
    {                                                                                                                  \
        const u64 i = element(GROUP);                                                                                  \
        if (i < n) y[i] = a * x[i] + b * y[i];                                                                         \
    }
AXPBY(f32)
AXPBY(f64)
