/* sin and cos of one element, for any argument; errors are a few ulp. Included after vmath.h. */

/* 1 / (2 pi) after 64 zeros, the most significant bits first. */
__constant const u32 SP_TURNS[40] = {
    0x00000000, 0x00000000, 0x28be60db, 0x9391054a, 0x7f09d5f4, 0x7d4d3770, 0x36d8a566, 0x4f10e410,
    0x7f9458ea, 0xf7aef158, 0x6dc91b8e, 0x909374b8, 0x01924bba, 0x82746487, 0x3f877ac7, 0x2c4a69cf,
    0xba208d7d, 0x4baed121, 0x3a671c09, 0xad17df90, 0x4e64758e, 0x60d4ce7d, 0x272117e2, 0xef7e4a0e,
    0xc7fe25ff, 0xf7816603, 0xfbcbc462, 0xd6829b47, 0xdb4d9fb3, 0xc9f2c26d, 0xd3d18fd9, 0xa797fa8b,
    0x5d49eeb1, 0xfaf97c5e, 0xcf41ce7d, 0xe294a4ba, 0x9afed7ec, 0x47e35742, 0x1580cc11, 0xbf1edaea,
};
/* From here on x times 2/pi rounds too much for what is left of it. */
#define SP_FAR 0x1p27

struct sp_angle {
    f64 rest;     /* at most pi/4 either way */
    u32 quarters; /* of a turn, modulo 4 */
};

static inline struct sp_angle sp_near_angle(f64 x)
{
    const f64 n = sp_floor_f64(__builtin_fma(x, 0.63661977236758134308, 0.5));
    f64 r = __builtin_fma(-n, 1.5707963267948965580, x);
    r = __builtin_fma(-n, 6.1232339957367660359e-17, r);
    r = __builtin_fma(-n, -1.4973849048591698e-33, r);
    return (struct sp_angle){r, (u32)(i32)(n - 4.0 * sp_floor_f64(n * 0.25))};
}

/* x = m * 2**e: of 1 / (2 pi) the bits that make whole turns are left out, and the next 192 times m are the fraction of
 * a turn to 2**-139 (Payne and Hanek). */
static inline struct sp_angle sp_far_angle(f64 x)
{
    const u64 bits = sp_bits_of_f64(x), m = (bits & 0x000ffffffffffffful) | 1ul << 52;
    const u32 first = (u32)(bits >> 52 & 0x7ff) - 1075 + 64, word = first >> 5, shift = first & 31;
    u32 f[6], p[6];
    u64 carry = 0;
    for (i32 i = 5; i >= 0; i--) { /* times the lower half of m */
        const u64 two = (u64)SP_TURNS[word + i] << 32 | SP_TURNS[word + i + 1];
        f[i] = (u32)(two << shift >> 32);
        const u64 sum = (u64)f[i] * (u32)m + carry;
        p[i] = (u32)sum;
        carry = sum >> 32;
    }
    carry = 0;
    for (i32 i = 5; i >= 1; i--) { /* and the upper one */
        const u64 sum = (u64)f[i] * (u32)(m >> 32) + p[i - 1] + carry;
        p[i - 1] = (u32)sum;
        carry = sum >> 32;
    }
    const u32 quarters = ((p[0] >> 29) + 1) >> 1; /* the nearest; an eighth of a turn counts up */
    p[0] -= quarters << 30;
    const u32 flip = (u32)((i32)p[0] >> 31); /* all ones when what is left is negative */
    carry = flip & 1;
    for (i32 i = 5; i >= 0; i--) {
        const u64 sum = (u64)(p[i] ^ flip) + carry;
        p[i] = (u32)sum;
        carry = sum >> 32;
    }
    const f64 high = (f64)((u64)p[0] << 32 | p[1]), low = (f64)((u64)p[2] << 32 | p[3]);
    const f64 rest = (high * 0x1p-64 + low * 0x1p-128) * 6.28318530717958647693;
    const u32 negative = (u32)(bits >> 63);
    return (struct sp_angle){(flip & 1) ^ negative ? -rest : rest, negative ? 0u - quarters : quarters};
}

/* sin(x + quarters * pi/2). */
static inline f64 sp_turn(f64 x, u32 quarters)
{
    const f64 a = sp_abs_f64(x);
    if (!(a < __builtin_inf())) return __builtin_nan("");
    const struct sp_angle angle = a < SP_FAR ? sp_near_angle(x) : sp_far_angle(x);
    const u32 q = angle.quarters + quarters;
    const f64 r = angle.rest;
    const f64 z = r * r;
    f64 s = 1.0 / 355687428096000.0;
    s = __builtin_fma(s, z, -1.0 / 1307674368000.0);
    s = __builtin_fma(s, z, 1.0 / 6227020800.0);
    s = __builtin_fma(s, z, -1.0 / 39916800.0);
    s = __builtin_fma(s, z, 1.0 / 362880.0);
    s = __builtin_fma(s, z, -1.0 / 5040.0);
    s = __builtin_fma(s, z, 1.0 / 120.0);
    s = __builtin_fma(s, z, -1.0 / 6.0);
    f64 c = 1.0 / 20922789888000.0;
    c = __builtin_fma(c, z, -1.0 / 87178291200.0);
    c = __builtin_fma(c, z, 1.0 / 479001600.0);
    c = __builtin_fma(c, z, -1.0 / 3628800.0);
    c = __builtin_fma(c, z, 1.0 / 40320.0);
    c = __builtin_fma(c, z, -1.0 / 720.0);
    c = __builtin_fma(c, z, 1.0 / 24.0);
    c = __builtin_fma(c, z, -0.5);
    const f64 y = q & 1 ? __builtin_fma(c, z, 1.0) : __builtin_fma(s * z, r, r);
    return q & 2 ? -y : y;
}

static inline f64 sp_sin_f64(f64 x) { return x == 0.0 ? x : sp_turn(x, 0); }
static inline f64 sp_cos_f64(f64 x) { return sp_turn(x, 1); }
static inline f32 sp_sin_f32(f32 x) { return (f32)sp_sin_f64((f64)x); }
static inline f32 sp_cos_f32(f32 x) { return (f32)sp_cos_f64((f64)x); }
