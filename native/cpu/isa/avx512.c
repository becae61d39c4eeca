/* Instruction set "avx512": AVX-512 F, VL, DQ, BW and FMA, 32 registers of 64 bytes. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,prefer-vector-width=512")
#pragma GCC optimize("O3", "align-functions=64", "fp-contract=fast", "no-trapping-math", "no-math-errno")
#endif
#define SP_ISA avx512
#define SP_MASKED 512
#define SP_VBYTES 64
#define SP_MR_F32 14
#define SP_NV_F32 2
#define SP_MR_F64 14
#define SP_NV_F64 2
#define SP_CONV_RUN 7
#define SP_PEAK_CHAINS 24
#define SP_REDUCE_LANES 32
#include "isa.inc"

const struct sp_gemm_kernel sp_gemm_avx512[2] = {
    [SP_GEMM_F32] = SP_GEMM_ROW(f32, 14, 32, 84, 2048, 1024),
    [SP_GEMM_F64] = SP_GEMM_ROW(f64, 14, 16, 42, 1024, 1024),
};
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
