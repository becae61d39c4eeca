/* Instruction set "neon": the vectors of every aarch64 CPU, 32 registers of 16 bytes. */
#if defined(__aarch64__)
#if !defined(__clang__)
#pragma GCC optimize("O3", "fp-contract=fast", "no-trapping-math", "no-math-errno")
#endif
#define SP_ISA neon
#define SP_VBYTES 16
#define SP_MR_F32 8
#define SP_NV_F32 3
#define SP_MR_F64 8
#define SP_NV_F64 3
#define SP_CONV_RUN 6
#define SP_PEAK_CHAINS 20
#define SP_REDUCE_LANES 16
#include "isa.inc"

const struct sp_gemm_kernel sp_gemm_neon[2] = {
    [SP_GEMM_F32] = SP_GEMM_ROW(f32, 8, 12, 120, 2040, 256),
    [SP_GEMM_F64] = SP_GEMM_ROW(f64, 8, 6, 64, 1020, 256),
};
#endif
