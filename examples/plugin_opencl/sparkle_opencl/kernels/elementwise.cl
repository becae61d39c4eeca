/* One thread, one element: copy fill vecadd saxpy axpby, and functions of one number. */
#define MOVES(T)                                                                                   \
    __kernel void copy_##T(OUT(T) y, IN(T) x, u32 n)                                               \
    {                                                                                              \
        const size_t i = get_global_id(0);                                                         \
        if (i < n) y[i] = x[i];                                                                    \
    }                                                                                              \
    __kernel void fill_##T(OUT(T) y, T a, u32 n)                                                   \
    {                                                                                              \
        const size_t i = get_global_id(0);                                                         \
        if (i < n) y[i] = a;                                                                       \
    }
MOVES(f32)
MOVES(i32)
WITH_F64(MOVES(f64))

#define UNARY(name, T, value)                                                                      \
    __kernel void name(OUT(T) y, IN(T) in, u32 n)                                                  \
    {                                                                                              \
        const size_t i = get_global_id(0);                                                         \
        if (i >= n) return;                                                                        \
        const T x = in[i];                                                                         \
        y[i] = value;                                                                              \
    }
#define UNARIES(T)                                                                                 \
    UNARY(relu_##T, T, relu_of_##T(x))                                                             \
    UNARY(abs_##T, T, fabs(x))                                                                     \
    UNARY(neg_##T, T, -x)                                                                          \
    UNARY(exp_##T, T, exp(x))                                                                      \
    UNARY(tanh_##T, T, tanh(x))
UNARIES(f32)
WITH_F64(UNARIES(f64))
UNARY(relu_i32, i32, x < 0 ? 0 : x)
UNARY(abs_i32, i32, x < 0 ? (i32)-(u32)x : x)
UNARY(neg_i32, i32, (i32)-(u32)x)

#define VECADD(T, sum)                                                                             \
    __kernel void vecadd_##T(OUT(T) z, IN(T) x, IN(T) y, u32 n)                                    \
    {                                                                                              \
        const size_t i = get_global_id(0);                                                         \
        if (i < n) z[i] = sum;                                                                     \
    }
VECADD(f32, x[i] + y[i])
VECADD(i32, (i32)((u32)x[i] + (u32)y[i]))
WITH_F64(VECADD(f64, x[i] + y[i]))

__kernel void saxpy_f32(OUT(f32) y, IN(f32) x, f32 a, u32 n)
{
    const size_t i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}

#define AXPBY(T)                                                                                   \
    __kernel void axpby_##T(OUT(T) y, IN(T) x, T a, T b, u32 n)                                    \
    {                                                                                              \
        const size_t i = get_global_id(0);                                                         \
        if (i < n) y[i] = a * x[i] + b * y[i];                                                     \
    }
AXPBY(f32)
WITH_F64(AXPBY(f64))
