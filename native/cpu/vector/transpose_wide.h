/* Transposes as transpose.h does, on machines with vectors of 32 bytes or more: squares of 8 x 8
 * floats or 4 x 4 doubles. */
#ifndef SP_CPU_TRANSPOSE_WIDE_H
#define SP_CPU_TRANSPOSE_WIDE_H
#include "transpose.h"

typedef float sp_f32x8 __attribute__((vector_size(32)));
typedef float sp_f32x8_at __attribute__((vector_size(32), aligned(4), may_alias));
typedef double sp_f64x4 __attribute__((vector_size(32)));
typedef double sp_f64x4_at __attribute__((vector_size(32), aligned(8), may_alias));

#if defined(__clang__)
#define SP_SHUFFLE8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define SP_SHUFFLE4_F64(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t sp_i32x8 __attribute__((vector_size(32)));
typedef int64_t sp_i64x4 __attribute__((vector_size(32)));
#define SP_SHUFFLE8(a, b, ...) __builtin_shuffle(a, b, (sp_i32x8){__VA_ARGS__})
#define SP_SHUFFLE4_F64(a, b, ...) __builtin_shuffle(a, b, (sp_i64x4){__VA_ARGS__})
#endif
/* Shuffles of two vectors of 32 bytes; each is one instruction. SP_LOW8 to SP_HIGH_PAIRS8 work
 * within each half of 16 bytes. SP_LOW_HALVES8 joins the low halves of `a` and `b`, SP_HIGH_HALVES8
 * the high halves. */
#define SP_LOW8(a, b) SP_SHUFFLE8(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define SP_HIGH8(a, b) SP_SHUFFLE8(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define SP_LOW_PAIRS8(a, b) SP_SHUFFLE8(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define SP_HIGH_PAIRS8(a, b) SP_SHUFFLE8(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define SP_LOW_HALVES8(a, b) SP_SHUFFLE8(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define SP_HIGH_HALVES8(a, b) SP_SHUFFLE8(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

static inline __attribute__((always_inline)) void sp_turn8_f32(const float *from, size_t ld_from, float *to,
                                                               size_t ld_to)
{
    sp_f32x8 row[8], two[8], four[8];
    _Pragma("GCC unroll 8") for (size_t i = 0; i < 8; i++) row[i] = *(const sp_f32x8_at *)(from + i * ld_from);
    _Pragma("GCC unroll 4") for (size_t i = 0; i < 8; i += 2)
    {
        two[i] = SP_LOW8(row[i], row[i + 1]);
        two[i + 1] = SP_HIGH8(row[i], row[i + 1]);
    }
    _Pragma("GCC unroll 2") for (size_t i = 0; i < 8; i += 4)
    {
        four[i] = SP_LOW_PAIRS8(two[i], two[i + 2]);
        four[i + 1] = SP_HIGH_PAIRS8(two[i], two[i + 2]);
        four[i + 2] = SP_LOW_PAIRS8(two[i + 1], two[i + 3]);
        four[i + 3] = SP_HIGH_PAIRS8(two[i + 1], two[i + 3]);
    }
    _Pragma("GCC unroll 4") for (size_t i = 0; i < 4; i++)
    {
        *(sp_f32x8_at *)(to + i * ld_to) = SP_LOW_HALVES8(four[i], four[i + 4]);
        *(sp_f32x8_at *)(to + (i + 4) * ld_to) = SP_HIGH_HALVES8(four[i], four[i + 4]);
    }
}

static inline __attribute__((always_inline)) void sp_turn4_f64(const double *from, size_t ld_from, double *to,
                                                               size_t ld_to)
{
    const sp_f64x4 a = *(const sp_f64x4_at *)from;
    const sp_f64x4 b = *(const sp_f64x4_at *)(from + ld_from);
    const sp_f64x4 c = *(const sp_f64x4_at *)(from + 2 * ld_from);
    const sp_f64x4 d = *(const sp_f64x4_at *)(from + 3 * ld_from);
    const sp_f64x4 ab_even = SP_SHUFFLE4_F64(a, b, 0, 4, 2, 6);
    const sp_f64x4 ab_odd = SP_SHUFFLE4_F64(a, b, 1, 5, 3, 7);
    const sp_f64x4 cd_even = SP_SHUFFLE4_F64(c, d, 0, 4, 2, 6);
    const sp_f64x4 cd_odd = SP_SHUFFLE4_F64(c, d, 1, 5, 3, 7);
    *(sp_f64x4_at *)to = SP_SHUFFLE4_F64(ab_even, cd_even, 0, 1, 4, 5);
    *(sp_f64x4_at *)(to + ld_to) = SP_SHUFFLE4_F64(ab_odd, cd_odd, 0, 1, 4, 5);
    *(sp_f64x4_at *)(to + 2 * ld_to) = SP_SHUFFLE4_F64(ab_even, cd_even, 2, 3, 6, 7);
    *(sp_f64x4_at *)(to + 3 * ld_to) = SP_SHUFFLE4_F64(ab_odd, cd_odd, 2, 3, 6, 7);
}
#endif
