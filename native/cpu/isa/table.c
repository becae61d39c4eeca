/* The table of built-in kernels, in the order of shaders/manifest.json: name, form, size of the
 * arguments, and a function per instruction set. Where an instruction set has no function, the
 * kernel uses that of the next lower one. */
#include "core/args.h"
#include "cpu/runtime/kernel.h"

/* ON_X86(f) is f in builds for x86, else NULL; ON_ARM(f) is f in builds for aarch64, else NULL. */
#if defined(__x86_64__)
#define ON_X86(x) x
#else
#define ON_X86(x) NULL
#endif
#if defined(__aarch64__)
#define ON_ARM(x) x
#else
#define ON_ARM(x) NULL
#endif

typedef void sp_any_fn(void);

#define DECLARE_REF(fn, kernel) extern fn sp_##kernel##_ref;
#define DECLARE_ALL(fn, kernel)                                                                                        \
    extern fn sp_##kernel##_ref, sp_##kernel##_neon, sp_##kernel##_avx2, sp_##kernel##_avx512;

DECLARE_REF(sp_grid_fn, noop)
DECLARE_REF(sp_grid_fn, busy_u32)
DECLARE_ALL(sp_span_fn, copy_f32)
DECLARE_ALL(sp_span_fn, fill_f32)
DECLARE_ALL(sp_span_fn, vecadd_f32)
DECLARE_ALL(sp_span_fn, copy_f64)
DECLARE_ALL(sp_span_fn, fill_f64)
DECLARE_ALL(sp_span_fn, vecadd_f64)
DECLARE_ALL(sp_span_fn, copy_i32)
DECLARE_ALL(sp_span_fn, fill_i32)
DECLARE_ALL(sp_span_fn, vecadd_i32)
DECLARE_ALL(sp_span_fn, saxpy_f32)
DECLARE_ALL(sp_span_fn, axpby_f32)
DECLARE_ALL(sp_span_fn, axpby_f64)
DECLARE_ALL(sp_span_fn, relu_f32)
DECLARE_ALL(sp_span_fn, relu_f64)
DECLARE_ALL(sp_span_fn, relu_i32)
DECLARE_ALL(sp_span_fn, abs_f32)
DECLARE_ALL(sp_span_fn, abs_f64)
DECLARE_ALL(sp_span_fn, abs_i32)
DECLARE_ALL(sp_span_fn, neg_f32)
DECLARE_ALL(sp_span_fn, neg_f64)
DECLARE_ALL(sp_span_fn, neg_i32)
DECLARE_ALL(sp_span_fn, exp_f32)
DECLARE_REF(sp_span_fn, exp_f64)
DECLARE_ALL(sp_span_fn, tanh_f32)
DECLARE_REF(sp_span_fn, tanh_f64)
DECLARE_ALL(sp_routine_fn, map_f32)
DECLARE_ALL(sp_routine_fn, map_f64)
DECLARE_ALL(sp_routine_fn, map_i32)
DECLARE_ALL(sp_routine_fn, fused_map)
DECLARE_ALL(sp_routine_fn, gemm_f32)
DECLARE_ALL(sp_routine_fn, gemm_f64)
DECLARE_ALL(sp_routine_fn, pack_gemm_f32)
DECLARE_ALL(sp_routine_fn, pack_gemm_f64)
DECLARE_ALL(sp_routine_fn, conv2d_f32)
DECLARE_ALL(sp_routine_fn, pack_conv2d_f32)
DECLARE_ALL(sp_routine_fn, reduce_sum_f32)
DECLARE_ALL(sp_routine_fn, reduce_sum_f64)
DECLARE_ALL(sp_routine_fn, reduce_sum_i32)
DECLARE_ALL(sp_routine_fn, reduce_max_f32)
DECLARE_ALL(sp_routine_fn, reduce_max_f64)
DECLARE_ALL(sp_routine_fn, reduce_max_i32)
DECLARE_ALL(sp_routine_fn, reduce_min_f32)
DECLARE_ALL(sp_routine_fn, reduce_min_f64)
DECLARE_ALL(sp_routine_fn, reduce_min_i32)
DECLARE_REF(sp_routine_fn, nchw_to_nhwc_f32)
DECLARE_REF(sp_routine_fn, nhwc_to_nchw_f32)
DECLARE_REF(sp_routine_fn, nchw_to_blocked_f32)
DECLARE_REF(sp_routine_fn, blocked_to_nchw_f32)
DECLARE_REF(sp_routine_fn, strided_u8)
DECLARE_REF(sp_routine_fn, strided_u16)
DECLARE_REF(sp_routine_fn, strided_u32)
DECLARE_REF(sp_routine_fn, strided_u64)
DECLARE_ALL(sp_routine_fn, peak_fma_f32)
DECLARE_ALL(sp_routine_fn, peak_fma_f64)

#define REF_ONLY(kernel, form)                                                                                         \
    {                                                                                                                  \
        #kernel, form, sizeof(struct sp_args_##kernel), { [SP_ISA_REF] = (sp_any_fn *)sp_##kernel##_ref }              \
    }
#define ALL(kernel, form)                                                                                              \
    {                                                                                                                  \
        #kernel, form, sizeof(struct sp_args_##kernel),                                                                \
        {                                                                                                              \
            [SP_ISA_REF] = (sp_any_fn *)sp_##kernel##_ref,                                                             \
            [SP_ISA_NEON] = ON_ARM((sp_any_fn *)sp_##kernel##_neon),                                                   \
            [SP_ISA_AVX2] = ON_X86((sp_any_fn *)sp_##kernel##_avx2),                                                   \
            [SP_ISA_AVX512] = ON_X86((sp_any_fn *)sp_##kernel##_avx512),                                               \
        }                                                                                                              \
    }

const struct sp_cpu_row sp_cpu_rows[] = {
    {"noop", SP_FORM_GRID, 0, {[SP_ISA_REF] = (sp_any_fn *)sp_noop_ref}},
    REF_ONLY(busy_u32, SP_FORM_GRID),
    ALL(copy_f32, SP_FORM_SPAN),
    ALL(fill_f32, SP_FORM_SPAN),
    ALL(vecadd_f32, SP_FORM_SPAN),
    ALL(copy_f64, SP_FORM_SPAN),
    ALL(fill_f64, SP_FORM_SPAN),
    ALL(vecadd_f64, SP_FORM_SPAN),
    ALL(copy_i32, SP_FORM_SPAN),
    ALL(fill_i32, SP_FORM_SPAN),
    ALL(vecadd_i32, SP_FORM_SPAN),
    ALL(saxpy_f32, SP_FORM_SPAN),
    ALL(axpby_f32, SP_FORM_SPAN),
    ALL(axpby_f64, SP_FORM_SPAN),
    ALL(relu_f32, SP_FORM_SPAN),
    ALL(relu_f64, SP_FORM_SPAN),
    ALL(relu_i32, SP_FORM_SPAN),
    ALL(abs_f32, SP_FORM_SPAN),
    ALL(abs_f64, SP_FORM_SPAN),
    ALL(abs_i32, SP_FORM_SPAN),
    ALL(neg_f32, SP_FORM_SPAN),
    ALL(neg_f64, SP_FORM_SPAN),
    ALL(neg_i32, SP_FORM_SPAN),
    ALL(exp_f32, SP_FORM_SPAN),
    REF_ONLY(exp_f64, SP_FORM_SPAN),
    ALL(tanh_f32, SP_FORM_SPAN),
    REF_ONLY(tanh_f64, SP_FORM_SPAN),
    ALL(map_f32, SP_FORM_ROUTINE),
    ALL(map_f64, SP_FORM_ROUTINE),
    ALL(map_i32, SP_FORM_ROUTINE),
    ALL(gemm_f32, SP_FORM_ROUTINE),
    ALL(gemm_f64, SP_FORM_ROUTINE),
    ALL(conv2d_f32, SP_FORM_ROUTINE),
    ALL(reduce_sum_f32, SP_FORM_ROUTINE),
    ALL(reduce_sum_f64, SP_FORM_ROUTINE),
    ALL(reduce_sum_i32, SP_FORM_ROUTINE),
    ALL(reduce_max_f32, SP_FORM_ROUTINE),
    ALL(reduce_max_f64, SP_FORM_ROUTINE),
    ALL(reduce_max_i32, SP_FORM_ROUTINE),
    ALL(reduce_min_f32, SP_FORM_ROUTINE),
    ALL(reduce_min_f64, SP_FORM_ROUTINE),
    ALL(reduce_min_i32, SP_FORM_ROUTINE),
    REF_ONLY(nchw_to_nhwc_f32, SP_FORM_ROUTINE),
    REF_ONLY(nhwc_to_nchw_f32, SP_FORM_ROUTINE),
    REF_ONLY(nchw_to_blocked_f32, SP_FORM_ROUTINE),
    REF_ONLY(blocked_to_nchw_f32, SP_FORM_ROUTINE),
    REF_ONLY(strided_u8, SP_FORM_ROUTINE),
    REF_ONLY(strided_u16, SP_FORM_ROUTINE),
    REF_ONLY(strided_u32, SP_FORM_ROUTINE),
    REF_ONLY(strided_u64, SP_FORM_ROUTINE),
    ALL(peak_fma_f32, SP_FORM_ROUTINE),
    ALL(peak_fma_f64, SP_FORM_ROUTINE),
    ALL(fused_map, SP_FORM_ROUTINE),
    ALL(pack_gemm_f32, SP_FORM_ROUTINE),
    ALL(pack_gemm_f64, SP_FORM_ROUTINE),
    ALL(pack_conv2d_f32, SP_FORM_ROUTINE),
};
const uint32_t sp_cpu_nrows = sizeof sp_cpu_rows / sizeof sp_cpu_rows[0];
