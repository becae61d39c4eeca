/* Functions of doubles, and of floats through doubles, for loops that become vector code. As in
 * vmath.h there are no branches and no calls. sp_odd_* marks elements that a function does not
 * cover (a huge angle, a power of 0); libm computes those.
 *
 * log and the polynomials of sine and cosine are fdlibm's approximations: they use its
 * coefficients, whose error bounds are published. exp and pow are series made for this file; tanh
 * near 0 is that of Cephes. tests/ops/map/test_map_maths.py measures the errors given beside the
 * functions. */
#ifndef SP_CPU_VMATH_WIDE_H
#define SP_CPU_VMATH_WIDE_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "vmath.h"

static inline double sp_double_of(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static inline uint64_t sp_bits_of_f64(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* 1.5 * 2**52. Adding it to a small x rounds x to an integer, which the low bits of the sum
 * hold. */
#define SP_SHIFT 6755399441055744.0
#define SP_SIGN 0x8000000000000000u

/* Computes e**(x + tail) for |tail| much smaller than |x|. x is n*ln2 + r with |r| <= ln2/2. The
 * result is a Taylor polynomial of degree 13 in r, times two factors whose product is 2**n. Each
 * factor is a normal double, so neither overflows, and a denormal result is rounded once. */
static inline double sp_exp_tail(double x, double tail)
{
    /* As a double, e**x is 0 at -760 and infinite at 720. So limiting x to this range does not
     * change the result. Without the limit, the two factors of 2**n could be outside the range of a
     * double. */
    double clamped = x < -760.0 ? -760.0 : x;
    clamped = clamped > 720.0 ? 720.0 : clamped;
    const double t = clamped * 1.44269504088896338700 + SP_SHIFT;
    const double n = t - SP_SHIFT;
    /* The two constants add up to ln2. The first ends with 21 zero bits, so that the product of n
     * and the first constant is exact. */
    const double r = ((clamped - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10) + tail;
    double p = 1.6059043836821614599e-10;
    p = p * r + 2.0876756987868098979e-9;
    p = p * r + 2.5052108385441718775e-8;
    p = p * r + 2.7557319223985890653e-7;
    p = p * r + 2.7557319223985890653e-6;
    p = p * r + 2.4801587301587301587e-5;
    p = p * r + 1.9841269841269841270e-4;
    p = p * r + 1.3888888888888888889e-3;
    p = p * r + 8.3333333333333333333e-3;
    p = p * r + 4.1666666666666666667e-2;
    p = p * r + 1.6666666666666666667e-1;
    p = p * r + 0.5;
    p = 1.0 + (r + r * r * p);
    /* If x is NaN, the exponent is arbitrary. The result is NaN anyway, because its factor p is
     * NaN. Adding 2048 makes the exponent positive, because every instruction set can shift
     * unsigned numbers. */
    const uint64_t exponent = sp_bits_of_f64(t) - sp_bits_of_f64(SP_SHIFT) + 2048;
    const uint64_t half = exponent >> 1;
    const double first = sp_double_of((half - 1024 + 1023) << 52);
    const double second = sp_double_of((exponent - half - 1024 + 1023) << 52);
    return p * first * second;
}

/* Splits a positive finite x = 2**k * m with m in [sqrt(1/2), sqrt(2)). Returns m, and k as a
 * double. */
static inline double sp_split(double x, double *k)
{
    const int tiny = x < 2.2250738585072014e-308;
    const double scaled = tiny ? x * 18014398509481984.0 : x; /* times 2**54 */
    const uint64_t bits = sp_bits_of_f64(scaled) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    /* Converts an integer below 2**52 to a double. The bits of the integer, combined with those of
     * the double 2**52, are the double 2**52 + integer. Subtracting 2**52 gives the integer. */
    const double exponent = sp_double_of((bits >> 52) | 0x4330000000000000u) - 4503599627370496.0;
    *k = exponent - (tiny ? 1077.0 : 1023.0);
    return sp_double_of((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
}

/* Computes log(x) with an error of at most 1 ulp: NaN for x < 0, -infinity for 0. */
static inline double sp_log_any(double x)
{
    double k;
    const double f = sp_split(x, &k) - 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    double p = 1.479819860511658591e-01;
    p = p * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    p = p * z;
    const double half = 0.5 * f * f;
    const double log = k * 6.93147180369123816490e-01 -
                       ((half - (s * (half + p) + k * 1.90821492927058770002e-10)) - f);
    double found = x < HUGE_VAL ? log : x; /* log(infinity) is infinity, log(NaN) is NaN */
    found = x < 0.0 ? (double)NAN : found;
    return x == 0.0 ? -HUGE_VAL : found;
}

/* Reduces an angle: computes x - n*pi/2 as hi + lo with |hi| <= pi/4, for |x| <= SP_MOST_ANGLE.
 * Returns hi. Stores `*n`, of which only the low bits are those of n. pi/2 is the sum of three
 * constants of 33, 33 and 53 bits, so that n times the first, and n times the second, is exact. */
#define SP_MOST_ANGLE 1647099.0 /* 2**20 * pi/2 */
static inline double sp_quadrant(double x, double *lo, uint64_t *n)
{
    const double t = x * 6.36619772367581382433e-01 + SP_SHIFT;
    const double whole = t - SP_SHIFT;
    *n = sp_bits_of_f64(t);
    const double first = x - whole * 1.57079632673412561417e+00;
    const double w = whole * 6.07710050630396597660e-11;
    const double r = first - w;
    const double tail = ((first - r) - w) - whole * 2.02226624879595063154e-21;
    const double hi = r + tail;
    *lo = (r - hi) + tail;
    return hi;
}

/* Computes the sine (quarter 0) or cosine (quarter 1) of x by fdlibm's polynomials of the reduced
 * angle. The error is at most 1 ulp. */
static inline double sp_sine_any(double x, uint64_t quarter)
{
    double y;
    uint64_t n;
    const double r = sp_quadrant(x, &y, &n);
    n += quarter;
    const double z = r * r;
    double s = 1.58969099521155010221e-10;
    s = s * z + -2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z + -1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    const double v = z * r;
    const double sine = r - ((z * (0.5 * y - v * s) - y) - v * -1.66666666666666324348e-01);
    double c = -1.13596475577881948265e-11;
    c = c * z + 2.08757232129817482790e-09;
    c = c * z + -2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z + -1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    const double half = 0.5 * z;
    const double w = 1.0 - half;
    const double cosine = w + (((1.0 - w) - half) + (z * (z * c) - r * y));
    const double found = n & 1 ? cosine : sine;
    const double turned = sp_double_of(sp_bits_of_f64(found) ^ (n & 2) << 62);
    return ((quarter == 0) & (x == 0.0)) ? x : turned; /* the sine of -0 is -0 */
}

/* Computes the sine or cosine of an angle that is a float. For a float, two approximations are
 * exact enough: one double for the reduced angle, and the shorter polynomials that fdlibm uses for
 * float. */
static inline double sp_sine_short(double x, uint64_t quarter)
{
    const double t = x * 6.36619772367581382433e-01 + SP_SHIFT;
    const double whole = t - SP_SHIFT;
    const uint64_t n = sp_bits_of_f64(t) + quarter;
    const double r = (x - whole * 1.57079632673412561417e+00) - whole * 6.07710050650619224932e-11;
    const double z = r * r;
    const double sine = r + r * z * (-0.166666666416265235595 + z * (0.0083333293858894631756 +
                        z * (-0.000198393348360966317347 + z * 0.0000027183114939898219064)));
    const double cosine = 1.0 + z * (-0.499999997251031003120 + z * (0.0416666233237390631894 +
                          z * (-0.00138867637746099294692 + z * 0.0000243904487962774090654)));
    const double found = n & 1 ? cosine : sine;
    const double turned = sp_double_of(sp_bits_of_f64(found) ^ (n & 2) << 62);
    return ((quarter == 0) & (x == 0.0)) ? x : turned;
}

#ifdef SP_USE_LIBM
static inline float sp_log_f32(float x) { return logf(x); }
static inline float sp_sin_f32(float x) { return sinf(x); }
static inline float sp_cos_f32(float x) { return cosf(x); }
static inline float sp_pow_f32(float x, float y) { return powf(x, y); }
static inline double sp_expv_f64(double x) { return exp(x); }
static inline double sp_log_f64(double x) { return log(x); }
static inline double sp_tanhv_f64(double x) { return tanh(x); }
static inline double sp_sin_f64(double x) { return sin(x); }
static inline double sp_cos_f64(double x) { return cos(x); }
static inline double sp_pow_f64(double x, double y) { return pow(x, y); }
static inline int sp_odd_angle_f32(float x) { return (void)x, 0; }
static inline int sp_odd_angle_f64(double x) { return (void)x, 0; }
static inline int sp_odd_power_f32(float x, float y) { return (void)x, (void)y, 0; }
static inline int sp_odd_power_f64(double x, double y) { return (void)x, (void)y, 0; }
#else
/* Computes log(x) with an error of at most 1 ulp, by fdlibm's approximation for float. */
static inline float sp_log_f32(float x)
{
    const int tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 33554432.0f : x; /* times 2**25 */
    const uint32_t bits = sp_bits_of(scaled) + (0x3f800000u - 0x3f3504f3u);
    const float k = (float)(int32_t)(bits >> 23) - (tiny ? 152.0f : 127.0f);
    const float f = sp_float_of((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    const float s = f / (2.0f + f);
    const float z = s * s;
    const float p = z * (0.66666662693f + z * (0.40000972152f + z * (0.28498786688f + z * 0.24279078841f)));
    const float half = 0.5f * f * f;
    const float log = k * 6.9313812256e-01f - ((half - (s * (half + p) + k * 9.0580006145e-06f)) - f);
    float found = x < HUGE_VALF ? log : x;
    found = x < 0.0f ? NAN : found;
    return x == 0.0f ? -HUGE_VALF : found;
}

/* Computes the sine with an error of at most 0.51 ulp. */
static inline float sp_sin_f32(float x)
{
    return (float)sp_sine_short((double)x, 0);
}

static inline float sp_cos_f32(float x)
{
    return (float)sp_sine_short((double)x, 1);
}

/* Computes e**x with an error of at most 1 ulp. */
static inline double sp_expv_f64(double x)
{
    return sp_exp_tail(x, 0.0);
}

static inline double sp_log_f64(double x)
{
    return sp_log_any(x);
}

/* Computes tanh(x) with an error of at most 2 ulp. Near 0 this is a quotient of polynomials,
 * elsewhere 1 - 2/(e**(2*|x|) + 1) with the sign of x. */
static inline double sp_tanhv_f64(double x)
{
    const double a = fabs(x);
    const double z = x * x;
    const double p = (-9.64399179425052238628e-01 * z - 9.92877231001918586564e+01) * z - 1.61468768441708447952e+03;
    const double q = ((z + 1.12811678491632931402e+02) * z + 2.23548839060100448583e+03) * z + 4.84406305325125486048e+03;
    const double near_zero = x + x * z * (p / q);
    const double far = 1.0 - 2.0 / (sp_exp_tail(a + a, 0.0) + 1.0);
    const double found = a < 0.625 ? near_zero : far;
    /* the result has the sign of x, also for -0 */
    return sp_double_of(sp_bits_of_f64(found) | (sp_bits_of_f64(x) & SP_SIGN));
}

static inline double sp_sin_f64(double x)
{
    return sp_sine_any(x, 0);
}

static inline double sp_cos_f64(double x)
{
    return sp_sine_any(x, 1);
}

/* Returns 1 if an angle is infinite, NaN, or above SP_MOST_ANGLE in magnitude. The reduction does
 * not cover such angles. */
static inline int sp_odd_angle_f32(float x)
{
    return !(fabsf(x) <= (float)SP_MOST_ANGLE);
}

static inline int sp_odd_angle_f64(double x)
{
    return !(fabs(x) <= SP_MOST_ANGLE);
}

/* Returns x**y, given `power` = |x|**y. For x < 0 this is `power` if y is an even integer, -power
 * if y is an odd integer, and NaN if y is no integer. */
static inline double sp_signed_power(double power, double x, double y)
{
    const double half = 0.5 * y;
    const double negative = floor(half) == half ? power : -power;
    const double found = floor(y) == y ? negative : (double)NAN;
    return x < 0.0 ? found : power;
}

/* Computes x**y with an error of at most 0.51 ulp. */
static inline float sp_pow_f32(float x, float y)
{
    const double wide = (double)x;
    const double power = sp_exp_tail((double)y * sp_log_any(fabs(wide)), 0.0);
    return (float)sp_signed_power(power, wide, (double)y);
}

static inline int sp_odd_power_f32(float x, float y)
{
    return !((fabsf(x) < HUGE_VALF) & (x != 0.0f) & (fabsf(y) < HUGE_VALF));
}

/* Computes x**y with an error of at most 1.2 ulp, as e**(y * log(x)). log(x) is a sum of two
 * doubles with an error of about 2**-66. x is 2**k * m, so log(x) is k*ln2 + log(m). log(m) is
 * 2*atanh(s) with s = (m - 1)/(m + 1). In the series of atanh, the terms s and s**3/3 are sums of
 * two doubles each. The sum of all further terms is one double. */
static inline double sp_pow_f64(double x, double y)
{
    double k;
    const double f = sp_split(fabs(x), &k) - 1.0;
    const double below = 2.0 + f; /* m + 1 is exactly `below` + `rest` */
    const double rest = (2.0 - below) + f;
    const double s = f / below;
    const double s_lo = (fma(-s, below, f) - s * rest) / below;
    const double z = s * s;
    const double z_lo = fma(s, s, -z) + 2.0 * s * s_lo;
    double p = 1.0 / 25.0;
    p = p * z + 1.0 / 23.0;
    p = p * z + 1.0 / 21.0;
    p = p * z + 1.0 / 19.0;
    p = p * z + 1.0 / 17.0;
    p = p * z + 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z; /* atanh(s) = s + s * (z/3 + z * p), with z = s*s */
    /* Computes z * (1/3 + p), the factor of s in the series above, as a sum of two doubles, q +
     * q_lo. */
    const double third = 1.0 / 3.0;
    const double third_lo = 1.8503717077085942e-17;
    const double sum = third + p;
    const double sum_lo = ((third - sum) + p) + third_lo;
    const double q = z * sum;
    const double q_lo = fma(z, sum, -q) + z * sum_lo + z_lo * sum;
    const double u = s * q;
    const double u_lo = fma(s, q, -u) + s * q_lo + s_lo * q;
    /* Computes log(x) as a sum of two doubles, hi + lo. log(x) is k*ln2 + 2*atanh(s), and atanh(s)
     * is s + u. */
    const double whole = k * 6.93147180369123816490e-01;
    const double a = 2.0 * s;
    const double b = whole + a;
    const double b_at = b - whole;
    const double b_lo = (whole - (b - b_at)) + (a - b_at);
    const double c = 2.0 * u;
    const double d = b + c;
    const double d_at = d - b;
    const double d_lo = (b - (d - d_at)) + (c - d_at);
    const double tail = d_lo + b_lo + 2.0 * (s_lo + u_lo) + k * 1.90821492927058770002e-10;
    const double hi = d + tail;
    const double lo = (d - hi) + tail;
    const double product = y * hi;
    const double product_lo = fma(y, hi, -product) + y * lo;
    /* From |product| = 800 on, the result is infinite or 0. product_lo may then be infinite or too
     * large, so leave it out. */
    const int within = fabs(product) < 800.0;
    return sp_signed_power(sp_exp_tail(product, within ? product_lo : 0.0), x, y);
}

static inline int sp_odd_power_f64(double x, double y)
{
    return !((fabs(x) < HUGE_VAL) & (x != 0.0) & (fabs(y) < HUGE_VAL));
}
#endif

/* Computes the sigmoid with an error of at most 2.5 ulp, by the method of sp_sigmoid_f32. */
static inline double sp_sigmoidv_f64(double x)
{
    const double e = sp_expv_f64(x < 0.0 ? x : -x);
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
#endif
