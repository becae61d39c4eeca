/* exp, tanh and sigmoid of vmath.h for SP_EACH vectors at once. Each step is computed for all
 * vectors before the next step. With a single vector, each step would wait for the result of the
 * step before. The CPU's scheduler does not look far enough ahead to overlap whole vectors. Where
 * one instruction does several steps, this file uses it. The results equal those of vmath.h to the
 * bit (tests/ops/map/test_map_maths.py). */
#ifndef SP_CPU_VMATH_EACH_H
#define SP_CPU_VMATH_EACH_H
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stddef.h>
#include <stdint.h>

/* Number of vectors that one call computes at once. That many vectors and their temporaries fit
 * into the registers. */
#if SP_VBYTES == 32
enum { SP_EACH = 2 };
#else
enum { SP_EACH = 4 };
#endif
typedef float sp_vf __attribute__((vector_size(SP_VBYTES)));
typedef int32_t sp_vi __attribute__((vector_size(SP_VBYTES)));
typedef uint32_t sp_vu __attribute__((vector_size(SP_VBYTES)));

#define SP_FOR_EACH _Pragma("GCC unroll 8") for (size_t k = 0; k < SP_EACH; k++)
/* 1.5 * 2**23. Adding it to a small x rounds x to an integer, which the low bits of the sum
 * hold. */
#define SP_EXP_SHIFT 12582912.0f
#define SP_VF(value) ((sp_vf){0} + (value))
#define SP_VU(value) ((sp_vu){0} + (value))
#define SP_VPICK(m, x, y) ((sp_vf)(((sp_vi)(m) & (sp_vi)(x)) | (~(sp_vi)(m) & (sp_vi)(y))))

/* These macros compute each element of a vector. SP_VMAX is `x < low ? low : x`, SP_VMIN is `x >
 * high ? high : x`. Both return NaN if x is NaN. SP_VSCALE is p * 2**n, rounded once, for an
 * integer n and t = n + SP_EXP_SHIFT. */
#if SP_VBYTES == 64 && defined(__AVX512F__)
#define SP_VMAX(low, x) ((sp_vf)_mm512_max_ps((__m512)(low), (__m512)(x)))
#define SP_VMIN(high, x) ((sp_vf)_mm512_min_ps((__m512)(high), (__m512)(x)))
#define SP_VSCALE(p, n, t) ((sp_vf)_mm512_scalef_ps((__m512)(p), (__m512)(n)))
#else
#if SP_VBYTES == 32 && defined(__AVX2__)
#define SP_VMAX(low, x) ((sp_vf)_mm256_max_ps((__m256)(low), (__m256)(x)))
#define SP_VMIN(high, x) ((sp_vf)_mm256_min_ps((__m256)(high), (__m256)(x)))
#else
#define SP_VMAX(low, x) SP_VPICK((x) < (low), low, x)
#define SP_VMIN(high, x) SP_VPICK((x) > (high), high, x)
#endif
#define SP_VSCALE(p, n, t) sp_scaled_each(p, t)
static inline sp_vf sp_scaled_each(sp_vf p, sp_vf t)
{
    const sp_vi n = (sp_vi)((sp_vu)t - SP_VU(0x4b400000u)); /* 0x4b400000 is SP_EXP_SHIFT as bits */
    const sp_vi half = n >> 1;
    return p * (sp_vf)((sp_vu)(half + 127) << 23) * (sp_vf)((sp_vu)(n - half + 127) << 23);
}
#endif

/* Computes e**x of SP_EACH vectors. Each element of x must be above -104 or NaN. */
static inline __attribute__((always_inline)) void sp_exp_each_above(sp_vf y[SP_EACH], const sp_vf x[SP_EACH])
{
    sp_vf c[SP_EACH], t[SP_EACH], n[SP_EACH], r[SP_EACH], s[SP_EACH], p[SP_EACH];
    SP_FOR_EACH c[k] = SP_VMIN(SP_VF(89.0f), x[k]);
    SP_FOR_EACH t[k] = c[k] * 1.44269504088896341f + SP_EXP_SHIFT;
    SP_FOR_EACH n[k] = t[k] - SP_EXP_SHIFT;
    SP_FOR_EACH r[k] = c[k] - n[k] * 0.693359375f;
    SP_FOR_EACH r[k] = r[k] - n[k] * -2.12194440e-4f;
    SP_FOR_EACH s[k] = r[k] * r[k];
    SP_FOR_EACH p[k] = SP_VF(1.9875691500e-4f) * r[k] + 1.3981999507e-3f;
    SP_FOR_EACH p[k] = p[k] * r[k] + 8.3334519073e-3f;
    SP_FOR_EACH p[k] = p[k] * r[k] + 4.1665795894e-2f;
    SP_FOR_EACH p[k] = p[k] * r[k] + 1.6666665459e-1f;
    SP_FOR_EACH p[k] = p[k] * r[k] + 5.0000001201e-1f;
    SP_FOR_EACH p[k] = p[k] * s[k] + r[k];
    SP_FOR_EACH p[k] = p[k] + 1.0f;
    SP_FOR_EACH y[k] = SP_VSCALE(p[k], n[k], t[k]);
}

static inline __attribute__((always_inline)) void sp_exp_each(sp_vf y[SP_EACH], const sp_vf x[SP_EACH])
{
    sp_vf c[SP_EACH];
    SP_FOR_EACH c[k] = SP_VMAX(SP_VF(-104.0f), x[k]);
    sp_exp_each_above(y, c);
}

static inline __attribute__((always_inline)) void sp_tanh_each(sp_vf y[SP_EACH], const sp_vf x[SP_EACH])
{
    sp_vf a[SP_EACH], far[SP_EACH], z[SP_EACH], p[SP_EACH];
    SP_FOR_EACH a[k] = (sp_vf)((sp_vu)x[k] & 0x7fffffffu);
    SP_FOR_EACH far[k] = a[k] + a[k];
    sp_exp_each_above(far, far);
    SP_FOR_EACH far[k] = 1.0f - 2.0f / (far[k] + 1.0f);
    SP_FOR_EACH z[k] = x[k] * x[k];
    SP_FOR_EACH p[k] = SP_VF(-5.70498872745e-3f) * z[k] + 2.06390887954e-2f;
    SP_FOR_EACH p[k] = p[k] * z[k] - 5.37397155531e-2f;
    SP_FOR_EACH p[k] = p[k] * z[k] + 1.33314422036e-1f;
    SP_FOR_EACH p[k] = p[k] * z[k] - 3.33332819422e-1f;
    SP_FOR_EACH p[k] = p[k] * z[k] * x[k] + x[k];
    SP_FOR_EACH p[k] = SP_VPICK(a[k] < SP_VF(0.625f), p[k], far[k]);
    SP_FOR_EACH y[k] = (sp_vf)((sp_vu)p[k] | ((sp_vu)x[k] & 0x80000000u));
}

static inline __attribute__((always_inline)) void sp_sigmoid_each(sp_vf y[SP_EACH], const sp_vf x[SP_EACH])
{
    sp_vf e[SP_EACH];
    SP_FOR_EACH e[k] = (sp_vf)((sp_vu)x[k] | 0x80000000u);
    sp_exp_each(e, e);
    SP_FOR_EACH y[k] = SP_VPICK(x[k] < SP_VF(0.0f), e[k], SP_VF(1.0f)) / (1.0f + e[k]);
}
#endif
