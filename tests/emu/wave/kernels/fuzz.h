/* What random kernels (../fuzz_kernels.py) are made of: one source for a card and for this machine, as in lanes.h. NaNs are
 * made one NaN before anything looks at their bits. */
#include "lanes.h"
#ifdef __AMDGCN__
#define LDS __local
#define KERNEL(name)                                                                              \
    __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))                                   \
    void name(GLOBAL const u32 *in, GLOBAL u32 *out, int n)                                       \
    {                                                                                             \
        __local u32 l[GROUP * 4];                                                                 \
        int lane = (int)__builtin_amdgcn_workitem_id_x();                                         \
        int i = (int)__builtin_amdgcn_workgroup_id_x() * GROUP + lane;                            \
        body_##name(in + 8 * i, out + 8 * i, l + 4 * lane);                                       \
    }
#else
#define LDS
#define KERNEL(name)                                                                              \
    void name(const u32 *in, u32 *out, int n)                                                     \
    {                                                                                             \
        for (int i = 0; i < n; i++) {                                                             \
            u32 l[4];                                                                             \
            body_##name(in + 8 * i, out + 8 * i, l);                                              \
        }                                                                                         \
    }
#endif
/* Hides from LLVM 19 where a value comes from. It miscompiles three things otherwise:
 * - It takes an unsigned dividend with equal sign bits for a short signed one.
 * - It makes a float from a sign-extended word an SDWA operand with SEXT, which float instructions read as NEG.
 * - It rounds a product to half by V_FMA_MIXLO_F16 and adds +0, so that -0 becomes 0. */
#ifdef __AMDGCN__
INLINE u32 hide(u32 x) { __asm__ volatile("" : "+v"(x)); return x; }
INLINE u64 hide64(u64 x) { return (u64)hide((u32)(x >> 32)) << 32 | hide((u32)x); }
#else
INLINE u32 hide(u32 x) { return x; }
INLINE u64 hide64(u64 x) { return x; }
#endif
#define PUN(name, from, to)                                                                       \
    INLINE to name(from x)                                                                        \
    {                                                                                             \
        union {                                                                                   \
            from a;                                                                               \
            to b;                                                                                 \
        } c;                                                                                      \
        c.a = x;                                                                                  \
        return c.b;                                                                               \
    }
PUN(raw_to_f, u32, float)
PUN(raw_to_d, u64, double)
PUN(raw_to_h, ushort, f16)
PUN(raw_f, float, u32)
PUN(raw_d, double, u64)
PUN(raw_h, f16, ushort)
INLINE u32 bits_f(float x) { return x != x ? 0x7fc00000u : raw_f(x); }
INLINE u64 bits_d(double x) { return x != x ? 0x7ff8000000000000u : raw_d(x); }
INLINE u32 bits_h(f16 x) { return x != x ? 0x7e00u : raw_h(x); }
INLINE float as_f(u32 x) { return raw_to_f(hide(x)); }
INLINE double as_d(u64 x) { return raw_to_d(hide64(x)); }
INLINE f16 as_h(u32 x) { return raw_to_h((ushort)hide(x)); }
INLINE f16 to_h(float x) { return (f16)raw_to_f(hide(raw_f(x))); }
/* Conversions of what fits; anything else is a number of its own. */
INLINE int to_i(float x) { return x > -2e9f && x < 2e9f ? (int)x : 7; }
INLINE u32 to_u(float x) { return x > -0.5f && x < 4e9f ? (u32)x : 9; }
INLINE i64 to_l(double x) { return x > -9e18 && x < 9e18 ? (i64)x : 11; }
