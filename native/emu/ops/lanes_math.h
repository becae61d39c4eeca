/* Arithmetic of single lanes, as the ISA documents define it. Loops over lanes use it. */
#ifndef SP_EMU_OPS_LANES_MATH_H
#define SP_EMU_OPS_LANES_MATH_H
#include "emu/wave/operand.h"

static inline bool sp_is_snan32(float x)
{
    uint32_t b = sp_u32(x) & 0x7FFFFFFFu;
    return b > 0x7F800000u && b < 0x7FC00000u;
}
static inline bool sp_is_snan64(double x)
{
    uint64_t b = sp_u64(x) << 1 >> 1;
    return b > UINT64_C(0x7FF0000000000000) && b < UINT64_C(0x7FF8000000000000);
}

/* Minimum and maximum. A number wins over a NaN, and -0 is less than +0. In IEEE mode a signalling
 * NaN wins and becomes quiet. */
static inline float sp_min32(float a, float b, bool ieee)
{
    float r = a != a ? b : b != b ? a : a < b ? a : b < a ? b : sp_f32(sp_u32(a) | sp_u32(b));
    if (ieee && (sp_is_snan32(a) || sp_is_snan32(b)))
        r = sp_f32(sp_u32(sp_is_snan32(a) ? a : b) | 0x400000u);
    return r;
}
static inline float sp_max32(float a, float b, bool ieee)
{
    float r = a != a ? b : b != b ? a : a > b ? a : b > a ? b : sp_f32(sp_u32(a) & sp_u32(b));
    if (ieee && (sp_is_snan32(a) || sp_is_snan32(b)))
        r = sp_f32(sp_u32(sp_is_snan32(a) ? a : b) | 0x400000u);
    return r;
}
static inline double sp_min64(double a, double b, bool ieee)
{
    double r = a != a ? b : b != b ? a : a < b ? a : b < a ? b : sp_f64(sp_u64(a) | sp_u64(b));
    if (ieee && (sp_is_snan64(a) || sp_is_snan64(b)))
        r = sp_f64(sp_u64(sp_is_snan64(a) ? a : b) | UINT64_C(1) << 51);
    return r;
}
static inline double sp_max64(double a, double b, bool ieee)
{
    double r = a != a ? b : b != b ? a : a > b ? a : b > a ? b : sp_f64(sp_u64(a) & sp_u64(b));
    if (ieee && (sp_is_snan64(a) || sp_is_snan64(b)))
        r = sp_f64(sp_u64(sp_is_snan64(a) ? a : b) | UINT64_C(1) << 51);
    return r;
}
static inline float sp_med32(float a, float b, float c, bool ieee)
{
    if (a != a || b != b || c != c) return sp_min32(sp_min32(a, b, ieee), c, ieee);
    float low = sp_min32(a, b, ieee), high = sp_max32(a, b, ieee);
    return sp_max32(low, sp_min32(high, c, ieee), ieee);
}

/* Flushes a denormal to 0. Denormals never enter or leave the transcendental unit, whatever the
 * MODE. For that reason LLVM scales the operands of such instructions. */
static inline float sp_flush32(float x)
{
    return (sp_u32(x) & 0x7FFFFFFFu) < 0x00800000u ? sp_f32(sp_u32(x) & 0x80000000u) : x;
}

/* Converts to an integer: saturates, and turns a NaN into 0. */
static inline int32_t sp_to_i32(double x)
{
    return x != x ? 0 : x >= 2147483647.0 ? INT32_MAX : x <= -2147483648.0 ? INT32_MIN : (int32_t)x;
}
static inline uint32_t sp_to_u32(double x)
{
    return !(x > 0) ? 0u : x >= 4294967295.0 ? UINT32_MAX : (uint32_t)x;
}
static inline int32_t sp_to_i32f(float x)
{
    return x != x ? 0 : x >= 2147483648.0f ? INT32_MAX : x <= -2147483648.0f ? INT32_MIN : (int32_t)x;
}
static inline uint32_t sp_to_u32f(float x)
{
    return !(x > 0) ? 0u : x >= 4294967296.0f ? UINT32_MAX : (uint32_t)x;
}

/* Returns x * 2^e, rounded once: the product is exact in double, then becomes a float. */
static inline float sp_ldexp32(float x, int32_t e)
{
    e = e > 400 ? 400 : e < -400 ? -400 : e;
    return (float)((double)x * sp_f64((uint64_t)(e + 1023) << 52));
}

static inline int sp_exponent32(float x) { return (int)(sp_u32(x) >> 23 & 255); }
static inline int sp_exponent64(double x) { return (int)(sp_u64(x) >> 52 & 2047); }
static inline bool sp_is_denorm32(double x) { return x != 0 && fabs(x) < 0x1p-126; }
static inline bool sp_is_denorm64(double x) { return x != 0 && fabs(x) < 0x1p-1022; }

/* V_FRACT: the fraction of `a`, below 1 in any rounding. A whole number gives +0, either infinity a
 * negative NaN (seen on gfx1201: fract.h of ROCm's rocjitsu). `most` is the format's greatest
 * number below 1. */
static inline double sp_fract(double a, double most)
{
    if (a != a) return sp_f64(sp_u64(a) | UINT64_C(1) << 51);
    if (fabs(a) == INFINITY) return sp_f64(UINT64_C(0xFFF8000000000000));
    double r = a - floor(a);
    return r == 0 ? 0.0 : r < most ? r : most;
}

/* Limits of V_DIV_SCALE for a format. sp_div_power returns an exponent: V_DIV_SCALE multiplies its
 * operand by 2 to that power. Its inputs are the encoded exponents of the denominator (`ed`) and of
 * the numerator (`en`). *vcc becomes 1 if V_DIV_FMAS must undo the scaling. AMD's pseudocode tests
 * for denormal quotients instead. Cards behave as here (gfx1100 and gfx1201, by division.h of
 * ROCm's rocjitsu). */
struct sp_div_limits {
    int apart;     /* least difference of the operands' exponents at which *vcc is 1 */
    int power;     /* V_DIV_SCALE multiplies by 2**power, 2**-power or 1 */
    int huge_from; /* least exponent of a denominator whose reciprocal is denormal */
    /* greatest exponent of a numerator that is too small to keep all its digits in the division */
    int tiny_to;
};
static const struct sp_div_limits sp_div_limits32 = {96, 64, 253, 24}, sp_div_limits64 = {768, 128, 2045, 53};

static inline int sp_div_power(const struct sp_div_limits *k, int ed, int en, bool is_denominator, uint32_t *vcc)
{
    int apart = en - ed;
    *vcc = apart >= k->apart;
    if (*vcc) return is_denominator ? k->power : 0;
    if (ed == 0) return k->power;
    *vcc = apart <= -k->apart;
    if (ed >= k->huge_from) return *vcc && !is_denominator ? 0 : -k->power;
    if (*vcc) return is_denominator ? 0 : k->power;
    return en <= k->tiny_to ? k->power : 0;
}

/* V_DIV_SCALE: s0 is the operand to scale, s1 the denominator, s2 the numerator. */
static inline float sp_div_scale32(float s0, float s1, float s2, uint32_t *vcc)
{
    bool is_denominator = sp_u32(s0) == sp_u32(s1);
    int power = sp_div_power(&sp_div_limits32, sp_exponent32(s1), sp_exponent32(s2), is_denominator, vcc);
    return s1 == 0 || s2 == 0 ? sp_f32(0xFFC00000u) : sp_ldexp32(s0, power);
}

static inline double sp_div_scale64(double s0, double s1, double s2, uint32_t *vcc)
{
    bool is_denominator = sp_u64(s0) == sp_u64(s1);
    int power = sp_div_power(&sp_div_limits64, sp_exponent64(s1), sp_exponent64(s2), is_denominator, vcc);
    return s1 == 0 || s2 == 0 ? sp_f64(UINT64_C(0xFFF8000000000000)) : ldexp(s0, power);
}

/* Returns what V_DIV_FMAS with VCC set would give if it rounded only once. `result` is a * b + c
 * multiplied by `scale`, which undoes the scaling of V_DIV_SCALE.
 *
 * `sum` is a * b + c rounded, and `lost` is the error of this rounding. A denormal `result` was
 * rounded a second time. If `sum` was half-way between two results, the second rounding went to the
 * even one. If `lost` points to the other of the two results, that one is right. */
static inline double sp_rounded_once(double result, double sum, double lost, double unit, double scale)
{
    /* this subtraction is exact, because both numbers are multiples of sum's last bit */
    double left = sum - result / scale;
    if (fabs(left) != unit / scale / 2 || lost == 0 || (left > 0) != (lost > 0)) return result;
    return result + (left > 0 ? unit : -unit);
}

static inline float sp_div_fmas32(float a, float b, float c)
{
    if (sp_exponent32(c) > 127) return fmaf(a, b, c) * 0x1p64f;
    double product = (double)a * (double)b, sum = product + (double)c; /* the product is exact */
    double back = sum - product, lost = (product - (sum - back)) + ((double)c - back);
    float result = (float)(sum * 0x1p-64);
    if (!sp_is_denorm32((double)result)) return fmaf(a, b, c) * 0x1p-64f;
    return (float)sp_rounded_once((double)result, sum, lost, 0x1p-149, 0x1p-64);
}

static inline double sp_div_fmas64(double a, double b, double c)
{
    if (sp_exponent64(c) > 1023) return fma(a, b, c) * 0x1p128;
    double product = a * b, sum = fma(a, b, c), result = sum * 0x1p-128;
    if (!sp_is_denorm64(result)) return result;
    /* `c - sum` is exact, because c is near the sum and a * b is far smaller */
    double lost = ((c - sum) + product) + fma(a, b, -product);
    return sp_rounded_once(result, sum, lost, 0x1p-1074, 0x1p-128);
}

/* V_DIV_FIXUP: s0 is the quotient, s1 the denominator, s2 the numerator. */
static inline float sp_div_fixup32(float s0, float s1, float s2)
{
    uint32_t sign = (sp_u32(s1) ^ sp_u32(s2)) & 0x80000000u;
    if (s2 != s2) return sp_f32(sp_u32(s2) | 0x400000u);
    if (s1 != s1) return sp_f32(sp_u32(s1) | 0x400000u);
    if (s1 == 0 && s2 == 0) return sp_f32(0xFFC00000u);
    if (fabsf(s1) == INFINITY && fabsf(s2) == INFINITY) return sp_f32(0xFFC00000u);
    if (s1 == 0 || fabsf(s2) == INFINITY) return sp_f32(sign | 0x7F800000u);
    if (fabsf(s1) == INFINITY || s2 == 0) return sp_f32(sign);
    if (sp_exponent32(s2) - sp_exponent32(s1) < -150) return sp_f32(sign);
    /* s1 and s2 are finite numbers here. If s0 is a NaN all the same, an intermediate result was
     * infinite, so the true quotient overflows to an infinity. */
    if (s0 != s0) return sp_f32(sign | 0x7F800000u);
    return sp_f32(sign | (sp_u32(s0) & 0x7FFFFFFFu));
}

static inline double sp_div_fixup64(double s0, double s1, double s2)
{
    uint64_t sign = (sp_u64(s1) ^ sp_u64(s2)) & UINT64_C(1) << 63;
    if (s2 != s2) return sp_f64(sp_u64(s2) | UINT64_C(1) << 51);
    if (s1 != s1) return sp_f64(sp_u64(s1) | UINT64_C(1) << 51);
    if (s1 == 0 && s2 == 0) return sp_f64(UINT64_C(0xFFF8000000000000));
    if (fabs(s1) == INFINITY && fabs(s2) == INFINITY) return sp_f64(UINT64_C(0xFFF8000000000000));
    if (s1 == 0 || fabs(s2) == INFINITY) return sp_f64(sign | UINT64_C(0x7FF0000000000000));
    if (fabs(s1) == INFINITY || s2 == 0) return sp_f64(sign);
    if (sp_exponent64(s2) - sp_exponent64(s1) < -1075) return sp_f64(sign);
    if (s0 != s0) return sp_f64(sign | UINT64_C(0x7FF0000000000000));
    return sp_f64(sign | (sp_u64(s0) << 1 >> 1));
}

static inline float sp_frexp_mant32(float x)
{
    int e;
    return x - x != 0 ? x : frexpf(x, &e);
}
static inline int32_t sp_frexp_exp32(float x)
{
    int e = 0;
    if (x - x == 0) frexpf(x, &e);
    return e;
}
static inline double sp_frexp_mant64(double x)
{
    int e;
    return x - x != 0 ? x : frexp(x, &e);
}
static inline int32_t sp_frexp_exp64(double x)
{
    int e = 0;
    if (x - x == 0) frexp(x, &e);
    return e;
}

/* Returns the sum of the absolute differences of the bytes of a and b. `masked`: bytes that are 0
 * in b do not count. */
static inline uint32_t sp_sad8(uint32_t a, uint32_t b, bool masked)
{
    uint32_t r = 0;
    for (uint32_t n = 0; n < 32; n += 8) {
        int32_t d = (int32_t)(a >> n & 255) - (int32_t)(b >> n & 255);
        r += !masked || (b >> n & 255) ? (uint32_t)(d < 0 ? -d : d) : 0;
    }
    return r;
}

/* Returns the dot product of a and b, whose elements have `bits` bits each. sp_dot_sum adds `sum`,
 * such a product, to c. With `clamp` the result is saturated. */
static inline int64_t sp_dot(uint32_t a, uint32_t b, uint32_t bits, bool a_signed, bool b_signed)
{
    int64_t sum = 0;
    uint32_t mask = (1u << bits) - 1, sign = 1u << (bits - 1);
    for (uint32_t n = 0; n < 32; n += bits) {
        int64_t x = a >> n & mask, y = b >> n & mask;
        if (a_signed) x = (x ^ sign) - (int64_t)sign;
        if (b_signed) y = (y ^ sign) - (int64_t)sign;
        sum += x * y;
    }
    return sum;
}
static inline uint32_t sp_dot_sum(int64_t sum, uint32_t c, bool is_signed, bool clamp)
{
    int64_t r = sum + (is_signed ? (int64_t)(int32_t)c : (int64_t)c);
    int64_t least = is_signed ? INT32_MIN : 0, most = is_signed ? INT32_MAX : (int64_t)UINT32_MAX;
    return (uint32_t)(!clamp ? r : r < least ? least : r > most ? most : r);
}
#endif
