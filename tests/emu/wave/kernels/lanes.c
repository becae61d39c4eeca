/* Kernels whose every lane works by itself: the CPU twin of each is this same source, compiled by the host's compiler. */
#include "lanes.h"

/* --- loops and branches --- */
#define params_of_collatz (GLOBAL const u32 *a, GLOBAL u32 *out, int n)
LANE(collatz, (int i, GLOBAL const u32 *a, GLOBAL u32 *out, int n), (i, a, out, n))
{
    if (i >= n) return;
    u32 x = a[i] % 10000 + 1, steps = 0, top = x;
    while (x != 1) {
        if (x & 1)
            x = 3 * x + 1;
        else
            x >>= 1;
        if (x > top) top = x;
        if (++steps > 400) break;
    }
    out[i] = steps << 20 ^ top;
}

/* --- 64-bit integers --- */
#define params_of_mix64 (GLOBAL const u64 *a, GLOBAL u64 *out, int n)
LANE(mix64, (int i, GLOBAL const u64 *a, GLOBAL u64 *out, int n), (i, a, out, n))
{
    if (i >= n) return;
    u64 x = a[i], y = (u64)i * 0x9E3779B97F4A7C15ull;
    for (int k = 0; k < 8; k++) {
        x ^= x >> 33;
        x *= 0xFF51AFD7ED558CCDull;
        x = x << (k + 3) | x >> (61 - k);
        y += x < y ? x - y : y ^ x;
        x += (u64)((i64)y >> 17) + (y > 0x7000000000000000ull);
    }
    out[i] = x ^ y;
}

/* --- division --- */
#define params_of_div32 (GLOBAL const int *a, GLOBAL const int *b, GLOBAL int *out, int n)
LANE(div32, (int i, GLOBAL const int *a, GLOBAL const int *b, GLOBAL int *out, int n), (i, a, b, out, n))
{
    if (i >= n) return;
    int x = a[i], y = b[i] == 0 || b[i] == -1 ? 7 : b[i];
    u32 ux = (u32)a[i], uy = b[i] == 0 ? 9u : (u32)b[i];
    out[4 * i] = x / y;
    out[4 * i + 1] = x % y;
    out[4 * i + 2] = (int)(ux / uy);
    out[4 * i + 3] = (int)(ux % uy);
}

#define params_of_div64 (GLOBAL const i64 *a, GLOBAL const i64 *b, GLOBAL i64 *out, int n)
LANE(div64, (int i, GLOBAL const i64 *a, GLOBAL const i64 *b, GLOBAL i64 *out, int n), (i, a, b, out, n))
{
    if (i >= n) return;
    i64 x = a[i], y = b[i] == 0 || b[i] == -1 ? 7 : b[i];
    u64 ux = (u64)a[i], uy = b[i] == 0 ? 9u : (u64)b[i];
    out[4 * i] = x / y;
    out[4 * i + 1] = x % y;
    out[4 * i + 2] = (i64)(ux / uy);
    out[4 * i + 3] = (i64)(ux % uy);
}

#define params_of_divf32 (GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *out, int n)
LANE(divf32, (int i, GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *out, int n), (i, a, b, out, n))
{
    if (i >= n) return;
    out[2 * i] = a[i] / b[i];
    out[2 * i + 1] = __builtin_sqrtf(__builtin_fabsf(a[i]));
}

#define params_of_divf64 (GLOBAL const double *a, GLOBAL const double *b, GLOBAL double *out, int n)
LANE(divf64, (int i, GLOBAL const double *a, GLOBAL const double *b, GLOBAL double *out, int n), (i, a, b, out, n))
{
    if (i >= n) return;
    out[3 * i] = a[i] / b[i];
    out[3 * i + 1] = __builtin_sqrt(__builtin_fabs(a[i]));
    out[3 * i + 2] = __builtin_floor(b[i]) + __builtin_trunc(a[i] * 0.5);
}

/* --- calls --- */
NOINLINE u32 twist(u32 x, u32 k) { return (x ^ k * 2654435761u) + (x >> (k & 15)); }
NOINLINE u32 twist_often(u32 x, int times)
{
    for (int k = 0; k < times; k++) x = twist(x, (u32)k + x % 3);
    return x;
}
#define params_of_calls (GLOBAL const u32 *a, GLOBAL u32 *out, int n)
LANE(calls, (int i, GLOBAL const u32 *a, GLOBAL u32 *out, int n), (i, a, out, n))
{
    if (i >= n) return;
    u32 x = a[i];
    if (x & 2) x = twist_often(x, 5);
    out[i] = twist_often(x, (int)(x % 7)) + twist(x, 3);
}

/* --- private memory, indexed by data --- */
#define params_of_sorted (GLOBAL const int *a, GLOBAL int *out, int n)
LANE(sorted, (int i, GLOBAL const int *a, GLOBAL int *out, int n), (i, a, out, n))
{
    int v[24];
    if (i >= n) return;
    for (int k = 0; k < 24; k++) v[k] = a[(i * 7 + k * 13) % n];
    for (int k = 1; k < 24; k++) {
        int x = v[k], at = k;
        while (at > 0 && v[at - 1] > x) {
            v[at] = v[at - 1];
            at--;
        }
        v[at] = x;
    }
    int sum = 0;
    for (int k = 0; k < 24; k++) sum = sum * 31 + v[k];
    out[2 * i] = v[(u32)a[i] % 24];
    out[2 * i + 1] = sum;
}

/* --- bytes and shorts --- */
#define params_of_narrow (GLOBAL const uchar *a, GLOBAL const short *b, GLOBAL uchar *out, GLOBAL ushort *wide, int n)
LANE(narrow, (int i, GLOBAL const uchar *a, GLOBAL const short *b, GLOBAL uchar *out, GLOBAL ushort *wide, int n),
     (i, a, b, out, wide, n))
{
    if (i >= n) return;
    short s = b[i];
    signed char c = (signed char)a[i];
    out[i] = (uchar)(a[i] * 3 + s);
    ushort w = (ushort)((ushort)s << 3 | (ushort)a[i] >> 2);
    wide[i] = (ushort)(c < 0 ? w + c : (s > 100 ? w - 100 : w * 5));
}

/* --- conversions --- */
INLINE int clamp_to(double x, double low, double high) { return x != x ? 0 : (int)(x < low ? low : x > high ? high : x); }
#define params_of_convert (GLOBAL const float *a, GLOBAL const i64 *b, GLOBAL u64 *out, int n)
LANE(convert, (int i, GLOBAL const float *a, GLOBAL const i64 *b, GLOBAL u64 *out, int n), (i, a, b, out, n))
{
    union { float f; u32 u; } f;
    union { double d; u64 u; } d;
    if (i >= n) return;
    float x = a[i];
    i64 y = b[i];
    out[8 * i] = (u64)(i64)clamp_to((double)x, -2e9, 2e9);
    out[8 * i + 1] = (u32)clamp_to((double)x * 0.25, 0, 2e9);
    f.f = (float)(int)y;
    out[8 * i + 2] = f.u;
    f.f = (float)(u64)y;
    out[8 * i + 3] = f.u;
    d.d = (double)y;
    out[8 * i + 4] = d.u;
    d.d = (double)x * 3.0;
    out[8 * i + 5] = d.u;
    f.f = (float)d.d;
    out[8 * i + 6] = f.u;
    out[8 * i + 7] = (u64)(i64)(x > -9e18f && x < 9e18f ? x : 0.0f);
}

/* --- halves: each result rounded once --- */
#define params_of_halves (GLOBAL const f16 *a, GLOBAL const f16 *b, GLOBAL f16 *out, int n)
LANE(halves, (int i, GLOBAL const f16 *a, GLOBAL const f16 *b, GLOBAL f16 *out, int n), (i, a, b, out, n))
{
    if (i >= n) return;
    f16 x = a[i], y = b[i];
    out[4 * i] = x + y;
    out[4 * i + 1] = x * y;
    out[4 * i + 2] = x < y ? x - y : (f16)1.5f;
    out[4 * i + 3] = (f16)((float)x * 1.25f);
}

/* --- long: SHA-256 of one block, unrolled by the compiler --- */
#define ROTR(x, k) ((x) >> (k) | (x) << (32 - (k)))
#define params_of_sha256 (GLOBAL const u32 *a, GLOBAL const u32 *table, GLOBAL u32 *out, int n)
LANE(sha256, (int i, GLOBAL const u32 *a, GLOBAL const u32 *table, GLOBAL u32 *out, int n), (i, a, table, out, n))
{
    u32 w[16], s[8];
    if (i >= n) return;
    for (int k = 0; k < 16; k++) w[k] = a[i] + (u32)k * 0x01010101u;
    for (int k = 0; k < 8; k++) s[k] = table[k] + (u32)i;
#pragma clang loop unroll(full)
    for (int k = 0; k < 64; k++) {
        u32 m = w[k & 15];
        u32 t1 = s[7] + (ROTR(s[4], 6) ^ ROTR(s[4], 11) ^ ROTR(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + table[k] + m;
        u32 t2 = (ROTR(s[0], 2) ^ ROTR(s[0], 13) ^ ROTR(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        for (int j = 7; j > 0; j--) s[j] = s[j - 1];
        s[4] += t1;
        s[0] = t1 + t2;
        u32 x = w[(k + 1) & 15], y = w[(k + 14) & 15];
        w[k & 15] = m + (ROTR(x, 7) ^ ROTR(x, 18) ^ x >> 3) + w[(k + 9) & 15] + (ROTR(y, 17) ^ ROTR(y, 19) ^ y >> 10);
    }
    for (int k = 0; k < 8; k++) out[8 * i + k] = s[k];
}

/* --- a switch, and floats' branches --- */
#define params_of_switched (GLOBAL const u32 *a, GLOBAL const float *b, GLOBAL float *out, int n)
LANE(switched, (int i, GLOBAL const u32 *a, GLOBAL const float *b, GLOBAL float *out, int n), (i, a, b, out, n))
{
    if (i >= n) return;
    float x = b[i], y = 0;
    switch (a[i] % 11) {
    case 0: y = x; break;
    case 1: y = x + 1; break;
    case 2: for (int k = 0; k < 9; k++) y += x * (float)k; break;
    case 3: y = x > 0 ? 2 * x : -x; break;
    case 4: y = __builtin_fmaf(x, x, 0.25f); break;
    case 5: y = __builtin_truncf(x); break;
    case 6: y = __builtin_floorf(x); break;
    case 7: y = __builtin_ceilf(x) - x; break;
    case 8: y = __builtin_rintf(x * 3); break;
    case 9: y = __builtin_fmaxf(x, 1) - __builtin_fminf(x, -1); break;
    default: y = __builtin_copysignf(3, x); break;
    }
    out[i] = y;
}
