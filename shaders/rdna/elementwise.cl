/* One thread, one element, in groups of 256: copy fill vecadd saxpy axpby, and functions of one number. */
#include "kernel.h"
#include "vmath.h"

#define GRID KERNEL(256, 1)

#define MOVES(T)                                                                                                       \
    GRID copy_##T(OUT(T) y, IN(T) x, u32 n)                                                                            \
    {                                                                                                                  \
        u64 i = element(256);                                                                                          \
        if (i < n) y[i] = x[i];                                                                                        \
    }                                                                                                                  \
    GRID fill_##T(OUT(T) y, T a, u32 n)                                                                                \
    {                                                                                                                  \
        u64 i = element(256);                                                                                          \
        if (i < n) y[i] = a;                                                                                           \
    }
MOVES(f32)
MOVES(f64)
MOVES(i32)

#define UNARY(name, T, value)                                                                                          \
    GRID name(OUT(T) y, IN(T) in, u32 n)                                                                               \
    {                                                                                                                  \
        u64 i = element(256);                                                                                          \
        if (i >= n) return;                                                                                            \
        T x = in[i];                                                                                                   \
        y[i] = value;                                                                                                  \
    }
UNARY(relu_f32, f32, sp_relu_f32(x))
UNARY(relu_f64, f64, sp_relu_f64(x))
UNARY(abs_f32, f32, sp_abs_f32(x))
UNARY(abs_f64, f64, sp_abs_f64(x))
UNARY(neg_f32, f32, -x)
UNARY(neg_f64, f64, -x)
UNARY(exp_f32, f32, sp_exp_f32(x))
UNARY(exp_f64, f64, sp_exp_f64(x))
UNARY(tanh_f32, f32, sp_tanh_f32(x))
UNARY(tanh_f64, f64, sp_tanh_f64(x))
UNARY(relu_i32, i32, x < 0 ? 0 : x)
UNARY(abs_i32, i32, x < 0 ? (i32)-(u32)x : x)
UNARY(neg_i32, i32, (i32)-(u32)x)

#define VECADD(T, sum)                                                                                                 \
    GRID vecadd_##T(OUT(T) z, IN(T) x, IN(T) y, u32 n)                                                                 \
    {                                                                                                                  \
        u64 i = element(256);                                                                                          \
        if (i < n) z[i] = sum;                                                                                         \
    }
VECADD(f32, x[i] + y[i])
VECADD(f64, x[i] + y[i])
VECADD(i32, (i32)((u32)x[i] + (u32)y[i]))

GRID saxpy_f32(OUT(f32) y, IN(f32) x, f32 a, u32 n)
{
    u64 i = element(256);
    if (i < n) y[i] = a * x[i] + y[i];
}

#define AXPBY(T)                                                                                                       \
    GRID axpby_##T(OUT(T) y, IN(T) x, T a, T b, u32 n)                                                                 \
    {                                                                                                                  \
        u64 i = element(256);                                                                                          \
        if (i < n) y[i] = a * x[i] + b * y[i];                                                                         \
    }
AXPBY(f32)
AXPBY(f64)
