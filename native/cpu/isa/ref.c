/* Instruction set "ref": portable C, the oracle of the other instruction sets. It calls libm where
 * they use polynomials. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off") /* round product and sum separately, also if FMA exists */
#endif
#define SP_ISA ref
#define SP_USE_LIBM 1
#define SP_VBYTES 16
#define SP_MR_F32 4
#define SP_NV_F32 2
#define SP_MR_F64 4
#define SP_NV_F64 2
#define SP_SMALL_B (24 << 10)
#define SP_CONV_RUN 3
#define SP_PEAK_CHAINS 8
#define SP_REDUCE_LANES 8
#include "isa.inc"

const struct sp_gemm_kernel sp_gemm_ref[2] = {
    [SP_GEMM_F32] = SP_GEMM_ROW(f32, 4, 8, 128, 1024, 256),
    [SP_GEMM_F64] = SP_GEMM_ROW(f64, 4, 4, 64, 1024, 256),
};
