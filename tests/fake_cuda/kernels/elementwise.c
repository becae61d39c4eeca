/* One thread an element: thread i does element i when i < n. */
#include "kernels.h"

#include <math.h>

static inline int32_t wrap_abs(int32_t x)
{
    return x < 0 ? (int32_t)(0u - (uint32_t)x) : x;
}

#define BEGIN(name)                                                                                                    \
    static int run_##name(const struct fk_launch *l)                                                                   \
    {                                                                                                                  \
        const struct name##_args v = *(const struct name##_args *)l->args;                                             \
        const uint64_t n = fk_smaller(fk_threads_x(l), v.n);
#define END(...)                                                                                                       \
    for (uint64_t i = 0; i < n; i++)                                                                                   \
        __VA_ARGS__;                                                                                                   \
    return 0;                                                                                                          \
    }

#define FILL(name, T)                                                                                                  \
    struct name##_args {                                                                                               \
        T *y;                                                                                                          \
        T a;                                                                                                           \
        uint32_t n;                                                                                                    \
    };                                                                                                                 \
    BEGIN(name)                                                                                                        \
    FK_NEED(v.y, n);                                                                                                   \
    END(v.y[i] = v.a)
#define UNARY(name, T, expression)                                                                                     \
    struct name##_args {                                                                                               \
        T *y;                                                                                                          \
        const T *x;                                                                                                    \
        uint32_t n;                                                                                                    \
    };                                                                                                                 \
    BEGIN(name)                                                                                                        \
    FK_NEED(v.y, n);                                                                                                   \
    FK_NEED(v.x, n);                                                                                                   \
    END({                                                                                                              \
        const T x = v.x[i];                                                                                            \
        v.y[i] = (expression);                                                                                         \
    })
#define BINARY(name, T, expression)                                                                                    \
    struct name##_args {                                                                                               \
        T *z;                                                                                                          \
        const T *x, *y;                                                                                                \
        uint32_t n;                                                                                                    \
    };                                                                                                                 \
    BEGIN(name)                                                                                                        \
    FK_NEED(v.z, n);                                                                                                   \
    FK_NEED(v.x, n);                                                                                                   \
    FK_NEED(v.y, n);                                                                                                   \
    END({                                                                                                              \
        const T x = v.x[i], y = v.y[i];                                                                                \
        v.z[i] = (expression);                                                                                         \
    })
#define AXPBY(name, T)                                                                                                 \
    struct name##_args {                                                                                               \
        T *y;                                                                                                          \
        const T *x;                                                                                                    \
        T a, b;                                                                                                        \
        uint32_t n;                                                                                                    \
    };                                                                                                                 \
    BEGIN(name)                                                                                                        \
    FK_NEED(v.y, n);                                                                                                   \
    FK_NEED(v.x, n);                                                                                                   \
    END(v.y[i] = v.a * v.x[i] + v.b * v.y[i])

struct saxpy_f32_args {
    float *y;
    const float *x;
    float a;
    uint32_t n;
};
BEGIN(saxpy_f32)
FK_NEED(v.y, n);
FK_NEED(v.x, n);
END(v.y[i] = v.a * v.x[i] + v.y[i])

AXPBY(axpby_f32, float)
AXPBY(axpby_f64, double)
FILL(fill_f32, float)
FILL(fill_f64, double)
FILL(fill_i32, int32_t)
BINARY(vecadd_f32, float, x + y)
BINARY(vecadd_f64, double, x + y)
BINARY(vecadd_i32, int32_t, (int32_t)((uint32_t)x + (uint32_t)y))
UNARY(copy_f32, float, x)
UNARY(copy_f64, double, x)
UNARY(copy_i32, int32_t, x)
UNARY(relu_f32, float, x < 0.0f ? 0.0f : x)
UNARY(relu_f64, double, x < 0.0 ? 0.0 : x)
UNARY(relu_i32, int32_t, x < 0 ? 0 : x)
UNARY(abs_f32, float, fabsf(x))
UNARY(abs_f64, double, fabs(x))
UNARY(abs_i32, int32_t, wrap_abs(x))
UNARY(neg_f32, float, -x)
UNARY(neg_f64, double, -x)
UNARY(neg_i32, int32_t, (int32_t)(0u - (uint32_t)x))
UNARY(exp_f32, float, expf(x))
UNARY(exp_f64, double, exp(x))
UNARY(tanh_f32, float, tanhf(x))
UNARY(tanh_f64, double, tanh(x))

#define ROW(name, signature) {#name, signature, run_##name, {0}}
struct fk_kernel fk_kernels_elementwise[] = {
    ROW(copy_f32, "ppu"), ROW(copy_f64, "ppu"), ROW(copy_i32, "ppu"),
    ROW(fill_f32, "pfu"), ROW(fill_f64, "pdu"), ROW(fill_i32, "piu"),
    ROW(vecadd_f32, "pppu"), ROW(vecadd_f64, "pppu"), ROW(vecadd_i32, "pppu"),
    ROW(saxpy_f32, "ppfu"), ROW(axpby_f32, "ppffu"), ROW(axpby_f64, "ppddu"),
    ROW(relu_f32, "ppu"), ROW(relu_f64, "ppu"), ROW(relu_i32, "ppu"),
    ROW(abs_f32, "ppu"), ROW(abs_f64, "ppu"), ROW(abs_i32, "ppu"),
    ROW(neg_f32, "ppu"), ROW(neg_f64, "ppu"), ROW(neg_i32, "ppu"),
    ROW(exp_f32, "ppu"), ROW(exp_f64, "ppu"), ROW(tanh_f32, "ppu"), ROW(tanh_f64, "ppu"), {0},
};
