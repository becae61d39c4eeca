/* exp, log, tanh and friends of one element. f32 as native/cpu/vmath.h does it, where f64 does not make it simpler; f64
 * by series on a reduced argument, cut where the next term is below a quarter ulp. NaN, infinities and denormals come
 * out as C's libm has them. Errors are a few ulp. sin and cos are in angle.h. */
static inline f32 sp_f32_of(u32 u) { return __builtin_astype(u, f32); }
static inline u32 sp_bits_of_f32(f32 x) { return __builtin_astype(x, u32); }
static inline f64 sp_f64_of(u64 u) { return __builtin_astype(u, f64); }
static inline u64 sp_bits_of_f64(f64 x) { return __builtin_astype(x, u64); }

/* NaN wins: in numpy, and here. */
#define FLOATS(T)                                                                                                      \
    static inline T sp_relu_##T(T x) { return x < 0 ? 0 : x; }                                                            \
    static inline T sp_min_##T(T a, T b) { return a < b || a != a ? a : b; }                                              \
    static inline T sp_max_##T(T a, T b) { return a > b || a != a ? a : b; }
FLOATS(f32)
FLOATS(f64)
#undef FLOATS

static inline f32 sp_abs_f32(f32 x) { return __builtin_fabsf(x); }
static inline f64 sp_abs_f64(f64 x) { return __builtin_fabs(x); }
static inline f32 sp_floor_f32(f32 x) { return __builtin_floorf(x); }
static inline f64 sp_floor_f64(f64 x) { return __builtin_floor(x); }
static inline f32 sp_sqrt_f32(f32 x) { return __builtin_sqrtf(x); }
static inline f64 sp_sqrt_f64(f64 x) { return __builtin_sqrt(x); }

static inline f32 sp_exp_f32(f32 x)
{
    const f32 shift = 12582912.0f; /* 1.5 * 2**23: adding it rounds to the nearest integer in the low bits */
    f32 clamped = x < -104.0f ? -104.0f : x;
    clamped = clamped > 89.0f ? 89.0f : clamped;
    const f32 t = clamped * 1.44269504088896341f + shift;
    const f32 n = t - shift;
    const f32 r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
    f32 p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* NaN leaves nonsense in `exponent`, which the product with a NaN p forgives. */
    const i32 exponent = (i32)(sp_bits_of_f32(t) - sp_bits_of_f32(shift));
    const i32 first = exponent >> 1;
    return p * sp_f32_of((u32)(first + 127) << 23) * sp_f32_of((u32)(exponent - first + 127) << 23);
}

/* e**r - 1 for |r| <= ln2/2. */
static inline f64 sp_expm1_near(f64 r)
{
    f64 p = 1.0 / 6227020800.0;
    p = __builtin_fma(p, r, 1.0 / 479001600.0);
    p = __builtin_fma(p, r, 1.0 / 39916800.0);
    p = __builtin_fma(p, r, 1.0 / 3628800.0);
    p = __builtin_fma(p, r, 1.0 / 362880.0);
    p = __builtin_fma(p, r, 1.0 / 40320.0);
    p = __builtin_fma(p, r, 1.0 / 5040.0);
    p = __builtin_fma(p, r, 1.0 / 720.0);
    p = __builtin_fma(p, r, 1.0 / 120.0);
    p = __builtin_fma(p, r, 1.0 / 24.0);
    p = __builtin_fma(p, r, 1.0 / 6.0);
    p = __builtin_fma(p, r, 0.5);
    return __builtin_fma(p * r, r, r);
}

#define LN2_HI 0.693147180369123816490 /* its last 21 bits are 0: times an exponent it is exact */
#define LN2_LO 1.90821492927058770002e-10

/* e**(x + low), `low` being far below an ulp of x. */
static inline f64 sp_exp_sum(f64 x, f64 low)
{
    f64 c = x < -746.0 ? -746.0 : x;
    c = c > 710.0 ? 710.0 : c;
    const f64 n = sp_floor_f64(c * 1.44269504088896340736 + 0.5);
    const f64 r = __builtin_fma(-n, LN2_LO, __builtin_fma(-n, LN2_HI, c)) + low;
    const f64 p = 1.0 + sp_expm1_near(r);
    const i32 whole = n == n ? (i32)n : 0;
    const i32 first = whole >> 1;
    return p * sp_f64_of((u64)(first + 1023) << 52) * sp_f64_of((u64)(whole - first + 1023) << 52);
}

static inline f64 sp_exp_f64(f64 x) { return sp_exp_sum(x, 0.0); }

static inline f32 sp_tanh_f32(f32 x)
{
    const f32 a = sp_abs_f32(x);
    const f32 z = x * x;
    f32 p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const f32 far = 1.0f - 2.0f / (sp_exp_f32(a + a) + 1.0f);
    return a < 0.625f ? p * z * x + x : sp_f32_of(sp_bits_of_f32(far) | (sp_bits_of_f32(x) & 0x80000000u));
}

static inline f64 sp_tanh_f64(f64 x)
{
    const f64 a = sp_abs_f64(x);
    const f64 t = sp_expm1_near(a < 0.17 ? a + a : 0.0);
    const f64 y = a < 0.17 ? t / (t + 2.0) : 1.0 - 2.0 / (sp_exp_f64(a + a) + 1.0);
    return x != x ? x : sp_f64_of(sp_bits_of_f64(y) | (sp_bits_of_f64(x) & 1ul << 63));
}

static inline f32 sp_sigmoid_f32(f32 x) { return 1.0f / (1.0f + sp_exp_f32(-x)); }
static inline f64 sp_sigmoid_f64(f64 x) { return 1.0 / (1.0 + sp_exp_f64(-x)); }

/* log(x) of a positive finite x as a sum of two: x = m * 2**e with m in [sqrt(1/2), sqrt(2)), and
 * log(m) = 2 atanh(s), s = (m - 1) / (m + 1), whose rounding error the second one brings back. */
static inline f64 sp_log_parts(f64 x, f64 *low)
{
    i32 e = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        e = -54;
    }
    const u64 t = sp_bits_of_f64(x) - 0x3fe6a09e667f3bcdul;
    e += (i32)((i64)t >> 52);
    const f64 m = sp_f64_of((t & 0x000ffffffffffffful) + 0x3fe6a09e667f3bcdul);
    const f64 f = m - 1.0, g = m + 1.0;
    const f64 s = f / g;
    const f64 g_low = m - (g - 1.0);
    const f64 s_low = (__builtin_fma(-s, g, f) - s * g_low) / g;
    const f64 z = s * s;
    f64 p = 2.0 / 21.0;
    p = __builtin_fma(p, z, 2.0 / 19.0);
    p = __builtin_fma(p, z, 2.0 / 17.0);
    p = __builtin_fma(p, z, 2.0 / 15.0);
    p = __builtin_fma(p, z, 2.0 / 13.0);
    p = __builtin_fma(p, z, 2.0 / 11.0);
    p = __builtin_fma(p, z, 2.0 / 9.0);
    p = __builtin_fma(p, z, 2.0 / 7.0);
    p = __builtin_fma(p, z, 2.0 / 5.0);
    p = __builtin_fma(p, z, 2.0 / 3.0);
    const f64 high = (f64)e * LN2_HI, twice = s + s;
    const f64 sum = high + twice;
    const f64 back = sum - high; /* two-sum: what the addition lost */
    const f64 lost = (high - (sum - back)) + (twice - back);
    *low = lost + (__builtin_fma(p, z * s, s_low + s_low) + (f64)e * LN2_LO);
    return sum;
}

static inline f64 sp_log_f64(f64 x)
{
    f64 low;
    if (!(x > 0.0)) return x == 0.0 ? -__builtin_inf() : __builtin_nan("");
    if (x == __builtin_inf()) return x;
    const f64 high = sp_log_parts(x, &low);
    return high + low;
}

static inline f32 sp_log_f32(f32 x) { return (f32)sp_log_f64((f64)x); }

/* The special cases are those of C's pow. */
static inline f64 sp_pow_f64(f64 x, f64 y)
{
    const f64 infinity = __builtin_inf(), a = sp_abs_f64(x);
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y) return __builtin_nan("");
    const int whole = sp_floor_f64(y) == y;
    const int odd = whole && sp_abs_f64(y) < 0x1p53 && ((i64)y & 1);
    const int negative = sp_bits_of_f64(x) >> 63;
    f64 power;
    if (negative && a != 0.0 && a != infinity && !whole) return __builtin_nan("");
    if (a == 0.0 || a == infinity) {
        power = (a == 0.0) == (y > 0.0) ? 0.0 : infinity;
    } else if (sp_abs_f64(y) == infinity) {
        power = a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? infinity : 0.0;
    } else {
        f64 low;
        const f64 high = sp_log_parts(a, &low);
        const f64 product = y * high;
        const f64 rest = __builtin_fma(y, high, -product) + y * low;
        power = sp_abs_f64(product) < 1e4 ? sp_exp_sum(product, rest) : product > 0 ? infinity : 0.0;
    }
    return negative && odd ? -power : power;
}

static inline f32 sp_pow_f32(f32 x, f32 y) { return (f32)sp_pow_f64((f64)x, (f64)y); }

/* In the order of enum sp_activation. */
#define ACTIVATE(T)                                                                                                    \
    static inline T sp_act_##T(T x, u32 act)                                                                              \
    {                                                                                                                  \
        return act == 1 ? sp_relu_##T(x) : act == 2 ? sp_tanh_##T(x) : act == 3 ? sp_sigmoid_##T(x) : x;                        \
    }
ACTIVATE(f32)
ACTIVATE(f64)
#undef ACTIVATE
