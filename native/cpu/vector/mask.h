/* Masks for the first `lanes` lanes of a vector (at least 1, at most all of them), for a tile that
 * ends inside a vector. Masked loads read only these lanes and fill the others with zeros. Masked
 * stores write only these lanes. Instruction sets with such loads define SP_MASKED. With other
 * instruction sets, such a tile is computed in a temporary (gemm/slice.c). */
#ifndef SP_CPU_MASK_H
#define SP_CPU_MASK_H
#include <immintrin.h>
#include <stdint.h>

#if SP_MASKED == 512
typedef __mmask16 sp_mask_f32;
typedef __mmask8 sp_mask_f64;

static inline __attribute__((always_inline)) sp_mask_f32 sp_lanes_f32(size_t lanes)
{
    return (__mmask16)((1u << lanes) - 1);
}

static inline __attribute__((always_inline)) sp_mask_f64 sp_lanes_f64(size_t lanes)
{
    return (__mmask8)((1u << lanes) - 1);
}

/* Returns the mask of the lanes l with 0 <= at + l < width. */
static inline __attribute__((always_inline)) sp_mask_f32 sp_lanes_inside_f32(int64_t at, int64_t width)
{
    const int64_t lo = at >= 0 ? 0 : at < -16 ? 16 : -at;
    const int64_t hi = at >= width ? 0 : width - at > 16 ? 16 : width - at;
    return hi > lo ? (__mmask16)((1u << hi) - (1u << lo)) : 0;
}

#define SP_LOAD_LANES_f32(p, mask) _mm512_maskz_loadu_ps(mask, p)
#define SP_LOAD_LANES_f64(p, mask) _mm512_maskz_loadu_pd(mask, p)
#define SP_STORE_LANES_f32(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
#define SP_STORE_LANES_f64(p, mask, v) _mm512_mask_storeu_pd(p, mask, v)
#else
typedef __m256i sp_mask_f32, sp_mask_f64;

static inline __attribute__((always_inline)) sp_mask_f32 sp_lanes_f32(size_t lanes)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline __attribute__((always_inline)) sp_mask_f64 sp_lanes_f64(size_t lanes)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x((int64_t)lanes), _mm256_setr_epi64x(0, 1, 2, 3));
}

static inline __attribute__((always_inline)) sp_mask_f32 sp_lanes_inside_f32(int64_t at, int64_t width)
{
    const int64_t lo = at >= 0 ? 0 : at < -8 ? 8 : -at;
    const int64_t hi = at >= width ? 0 : width - at > 8 ? 8 : width - at;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)lo), lane),
                               _mm256_cmpgt_epi32(_mm256_set1_epi32((int)hi), lane));
}

#define SP_LOAD_LANES_f32(p, mask) _mm256_maskload_ps(p, mask)
#define SP_LOAD_LANES_f64(p, mask) _mm256_maskload_pd(p, mask)
#define SP_STORE_LANES_f32(p, mask, v) _mm256_maskstore_ps(p, mask, v)
#define SP_STORE_LANES_f64(p, mask, v) _mm256_maskstore_pd(p, mask, v)
#endif
#endif
