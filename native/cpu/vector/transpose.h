/* Transposes small squares in registers: to[j*ld_to + i] = from[i*ld_from + j]. A square is 4 x 4
 * floats or 2 x 2 doubles, in 16-byte vectors, which every machine has. Packing and layout
 * transforms use it. */
#ifndef SP_CPU_TRANSPOSE_H
#define SP_CPU_TRANSPOSE_H
#include <stddef.h>
#include <stdint.h>

typedef float sp_f32x4 __attribute__((vector_size(16)));
typedef float sp_f32x4_at __attribute__((vector_size(16), aligned(4), may_alias));
typedef double sp_f64x2 __attribute__((vector_size(16)));
typedef double sp_f64x2_at __attribute__((vector_size(16), aligned(8), may_alias));

#if defined(__clang__)
#define SP_SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#define SP_SHUFFLE2(a, b, i, j) __builtin_shufflevector(a, b, i, j)
#else /* older versions of GCC lack __builtin_shufflevector */
typedef int32_t sp_i32x4 __attribute__((vector_size(16)));
typedef int64_t sp_i64x2 __attribute__((vector_size(16)));
#define SP_SHUFFLE4(a, b, i, j, k, l) __builtin_shuffle(a, b, (sp_i32x4){i, j, k, l})
#define SP_SHUFFLE2(a, b, i, j) __builtin_shuffle(a, b, (sp_i64x2){i, j})
#endif

/* Transposes four rows, which may be anywhere in memory. */
static inline void sp_transpose_4x4_rows_f32(const float *r0, const float *r1, const float *r2, const float *r3, float *to,
                                    size_t ld_to)
{
    const sp_f32x4 a = *(const sp_f32x4_at *)r0;
    const sp_f32x4 b = *(const sp_f32x4_at *)r1;
    const sp_f32x4 c = *(const sp_f32x4_at *)r2;
    const sp_f32x4 d = *(const sp_f32x4_at *)r3;
    const sp_f32x4 ab_lo = SP_SHUFFLE4(a, b, 0, 4, 1, 5);
    const sp_f32x4 ab_hi = SP_SHUFFLE4(a, b, 2, 6, 3, 7);
    const sp_f32x4 cd_lo = SP_SHUFFLE4(c, d, 0, 4, 1, 5);
    const sp_f32x4 cd_hi = SP_SHUFFLE4(c, d, 2, 6, 3, 7);
    *(sp_f32x4_at *)to = SP_SHUFFLE4(ab_lo, cd_lo, 0, 1, 4, 5);
    *(sp_f32x4_at *)(to + ld_to) = SP_SHUFFLE4(ab_lo, cd_lo, 2, 3, 6, 7);
    *(sp_f32x4_at *)(to + 2 * ld_to) = SP_SHUFFLE4(ab_hi, cd_hi, 0, 1, 4, 5);
    *(sp_f32x4_at *)(to + 3 * ld_to) = SP_SHUFFLE4(ab_hi, cd_hi, 2, 3, 6, 7);
}

static inline void sp_transpose_4x4_f32(const float *from, size_t ld_from, float *to, size_t ld_to)
{
    sp_transpose_4x4_rows_f32(from, from + ld_from, from + 2 * ld_from, from + 3 * ld_from, to, ld_to);
}

static inline void sp_transpose_2x2_f64(const double *from, size_t ld_from, double *to, size_t ld_to)
{
    const sp_f64x2 a = *(const sp_f64x2_at *)from;
    const sp_f64x2 b = *(const sp_f64x2_at *)(from + ld_from);
    *(sp_f64x2_at *)to = SP_SHUFFLE2(a, b, 0, 2);
    *(sp_f64x2_at *)(to + ld_to) = SP_SHUFFLE2(a, b, 1, 3);
}

/* Transposes a matrix of any size, by tiles: dst[j*ld_dst + i] = src[i*ld_src + j] for i < rows, j
 * < columns (cpu/small/layout.c). */
void sp_transpose_f32(float *dst, size_t ld_dst, const float *src, size_t ld_src, size_t rows, size_t columns);
#endif
