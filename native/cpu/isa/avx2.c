/* Instruction set "avx2": AVX2 and FMA, 16 registers of 32 bytes. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#pragma GCC optimize("O3", "align-functions=64", "fp-contract=fast", "no-trapping-math", "no-math-errno")
#endif
#define SP_ISA avx2
#define SP_MASKED 256
#define SP_VBYTES 32
#define SP_MR_F32 6
#define SP_NV_F32 2
#define SP_MR_F64 6
#define SP_NV_F64 2
#define SP_TERMS 2
#define SP_SMALL_B (24 << 10)
#define SP_CONV_RUN 3
#define SP_PEAK_CHAINS 12
#define SP_REDUCE_LANES 32
#include "isa.inc"

const struct sp_gemm_kernel sp_gemm_avx2[2] = {
    [SP_GEMM_F32] = SP_GEMM_ROW(f32, 6, 16, 168, 2048, 256),
    [SP_GEMM_F64] = SP_GEMM_ROW(f64, 6, 8, 84, 1024, 256),
};
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
