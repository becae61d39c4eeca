/* AVX-512's masked loads and stores, and its stream, in C: for a build of isa/avx512.c that has AVX2 alone
 * (build.py). Their meaning is the Intel Intrinsics Guide's: lanes whose bit is 0 are neither read nor written. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#define LOWERED(type, suffix, vector, lanes)                                                                     \
    static inline vector lowered_load_##suffix(unsigned mask, const void *from)                                  \
    {                                                                                                            \
        type all[lanes] = {0};                                                                                   \
        vector v;                                                                                                \
        for (size_t i = 0; i < (lanes); i++)                                                                     \
            if (mask >> i & 1)                                                                                   \
                memcpy(all + i, (const type *)from + i, sizeof *all);                                            \
        memcpy(&v, all, sizeof v);                                                                               \
        return v;                                                                                                \
    }                                                                                                            \
                                                                                                                 \
    static inline void lowered_store_##suffix(void *to, unsigned mask, vector v)                                 \
    {                                                                                                            \
        type all[lanes];                                                                                         \
        memcpy(all, &v, sizeof v);                                                                               \
        for (size_t i = 0; i < (lanes); i++)                                                                     \
            if (mask >> i & 1)                                                                                   \
                memcpy((type *)to + i, all + i, sizeof *all);                                                    \
    }
LOWERED(float, ps, __m512, 16)
LOWERED(double, pd, __m512d, 8)

#define _mm512_maskz_loadu_ps(mask, from) lowered_load_ps(mask, from)
#define _mm512_maskz_loadu_pd(mask, from) lowered_load_pd(mask, from)
#define _mm512_mask_storeu_ps(to, mask, v) lowered_store_ps(to, mask, v)
#define _mm512_mask_storeu_pd(to, mask, v) lowered_store_pd(to, mask, v)
#define _mm512_loadu_si512(from) (*(const __m512i_u *)(from))
#define _mm512_stream_si512(to, v) (*(__m512i_u *)(to) = (v))
#endif
