/* c[i*rsc + j] = act(sum over p of a[i*rsa + p*csa] * b[p*rsb + j*csb] + bias[j]): sums in double, in order of p. */
#include "kernels.h"

#include "activation.h"

/* Elements from the first to the last of rows x columns at these strides. */
static uint64_t span(uint64_t rows, uint64_t rs, uint64_t columns, uint64_t cs)
{
    return rows && columns ? (rows - 1) * rs + (columns - 1) * cs + 1 : 0;
}

#define GEMM(name, T)                                                                                                  \
    struct name##_args {                                                                                               \
        T *c;                                                                                                          \
        const T *a, *b, *bias;                                                                                         \
        uint32_t m, n, k, rsa, csa, rsb, csb, rsc, act;                                                                \
    };                                                                                                                 \
    static int run_##name(const struct fk_launch *l)                                                                   \
    {                                                                                                                  \
        const struct name##_args v = *(const struct name##_args *)l->args;                                             \
        FK_NEED(v.c, span(v.m, v.rsc, v.n, 1));                                                                        \
        FK_NEED(v.a, span(v.m, v.rsa, v.k, v.csa));                                                                    \
        FK_NEED(v.b, span(v.k, v.rsb, v.n, v.csb));                                                                    \
        if (v.bias)                                                                                                    \
            FK_NEED(v.bias, v.n);                                                                                      \
        for (uint64_t i = 0; i < v.m; i++)                                                                             \
            for (uint64_t j = 0; j < v.n; j++) {                                                                       \
                double sum = 0;                                                                                        \
                for (uint64_t p = 0; p < v.k; p++)                                                                     \
                    sum += (double)v.a[i * v.rsa + p * v.csa] * (double)v.b[p * v.rsb + j * v.csb];                    \
                if (v.bias)                                                                                            \
                    sum += (double)v.bias[j];                                                                          \
                v.c[i * v.rsc + j] = (T)fk_activate((double)(T)sum, v.act);                                            \
            }                                                                                                          \
        return 0;                                                                                                      \
    }
GEMM(gemm_f32, float)
GEMM(gemm_f64, double)

struct fk_kernel fk_kernels_gemm[] = {
    {"gemm_f32", "ppppuuuuuuuuu", run_gemm_f32, {0}},
    {"gemm_f64", "ppppuuuuuuuuu", run_gemm_f64, {0}},
    {0},
};
