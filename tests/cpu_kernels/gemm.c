/* Matrix products against three loops. */
#include "check.h"

#include <math.h>
#include <string.h>

#define CHECK check_gemm_f32
#define KERNEL "gemm_f32"
#define ARGS sp_args_gemm_f32
#define PACK_ARGS sp_args_pack_gemm_f32
#define TYPE float
#define NEW f32_new
#define TOLERANCE TOLERANCE_DIRECT
#include "gemm.inc"
#undef CHECK
#undef KERNEL
#undef ARGS
#undef PACK_ARGS
#undef TYPE
#undef NEW
#undef TOLERANCE

#define CHECK check_gemm_f64
#define KERNEL "gemm_f64"
#define ARGS sp_args_gemm_f64
#define PACK_ARGS sp_args_pack_gemm_f64
#define TYPE double
#define NEW f64_new
#define TOLERANCE TOLERANCE_F64
#include "gemm.inc"
