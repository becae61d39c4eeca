/* exp, tanh, sigmoid and others for one element, written so that a loop over them becomes vector
 * code: no branches, no calls, bits moved by memcpy. The f32 versions are polynomials, with error
 * bounds beside them, which tests/backends/cpu/test_kernels_cpu.py measures. The f64 versions call
 * libm. NaN, infinities and denormals give libm's results.
 *
 * Everything is static: each file of cpu/isa has its own copy, compiled for its instruction set. */
#ifndef SP_CPU_VMATH_H
#define SP_CPU_VMATH_H
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float sp_float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t sp_bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

#ifdef SP_USE_LIBM /* the reference calls the C library */
static inline float sp_exp_f32(float x)
{
    return expf(x);
}

static inline float sp_tanh_f32(float x)
{
    return tanhf(x);
}
#else
/* Computes e**x with an error of at most 1 ulp. x is n*ln2 + r with |r| <= ln2/2. The result is a
 * polynomial for e**r, times two factors whose product is 2**n. Each factor is a normal float, so
 * neither overflows, and a denormal result is rounded once. */
static inline float sp_exp_f32(float x)
{
    /* 1.5 * 2**23. Adding it to a small x rounds x to an integer, which the low bits of the sum
     * hold. */
    const float shift = 12582912.0f;
    float clamped = x < -104.0f ? -104.0f : x;
    clamped = clamped > 89.0f ? 89.0f : clamped;
    const float t = clamped * 1.44269504088896341f + shift;
    const float n = t - shift;
    const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* If x is NaN, `exponent` is arbitrary. The result is NaN anyway, because its factor p is
     * NaN. */
    const int32_t exponent = (int32_t)(sp_bits_of(t) - sp_bits_of(shift));
    const int32_t half = exponent >> 1;
    const float first = sp_float_of((uint32_t)(half + 127) << 23);
    const float second = sp_float_of((uint32_t)(exponent - half + 127) << 23);
    return p * first * second;
}

/* Computes tanh(x) with an error of at most 1.3 ulp. Near 0 this is an odd polynomial, elsewhere
 * 1 - 2/(e**(2*|x|) + 1) with the sign of x. */
static inline float sp_tanh_f32(float x)
{
    const float a = sp_float_of(sp_bits_of(x) & 0x7fffffffu);
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float near_zero = p * z * x + x;
    const float far = 1.0f - 2.0f / (sp_exp_f32(a + a) + 1.0f);
    const float found = a < 0.625f ? near_zero : far;
    /* the result has the sign of x, also for -0 */
    return sp_float_of(sp_bits_of(found) | (sp_bits_of(x) & 0x80000000u));
}
#endif

/* Computes the sigmoid with an error of at most 2.5 ulp, from the exponential of -|x|, which never
 * overflows. So small results do not become 0. */
static inline float sp_sigmoid_f32(float x)
{
    const float e = sp_exp_f32(x < 0.0f ? x : -x);
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

static inline float sp_relu_f32(float x)
{
    return x < 0.0f ? 0.0f : x; /* in this order, NaN stays NaN */
}

static inline double sp_exp_f64(double x)
{
    return exp(x);
}

static inline double sp_tanh_f64(double x)
{
    return tanh(x);
}

static inline double sp_sigmoid_f64(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static inline double sp_relu_f64(double x)
{
    return x < 0.0 ? 0.0 : x;
}
#endif
