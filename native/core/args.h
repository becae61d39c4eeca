/* Argument structs of the built-in kernels, in the order of shaders/manifest.json. A struct is the
 * layout of the packed arguments in a dispatch record, with natural C alignment. Only kernels and
 * native/cpu/isa/table.c (for the sizes) use the structs. A pointer member may be aligned to the
 * size of its element and no better. tests/backends/cpu/test_kernel_table.py compares the sizes
 * with the manifest. */
#ifndef SP_CORE_ARGS_H
#define SP_CORE_ARGS_H
#include <stdint.h>

/* The kernel `noop` has no arguments, so it has no struct. */
struct sp_args_busy_u32 {
    uint32_t *y;
    uint32_t iters;
};

#define SP_ARGS_FILL(name, T)                                                                                          \
    struct sp_args_##name {                                                                                            \
        T *y;                                                                                                          \
        T a;                                                                                                           \
        uint32_t n;                                                                                                    \
    }
#define SP_ARGS_UNARY(name, T)                                                                                         \
    struct sp_args_##name {                                                                                            \
        T *y;                                                                                                          \
        const T *x;                                                                                                    \
        uint32_t n;                                                                                                    \
    }
#define SP_ARGS_BINARY(name, T)                                                                                        \
    struct sp_args_##name {                                                                                            \
        T *z;                                                                                                          \
        const T *x;                                                                                                    \
        const T *y;                                                                                                    \
        uint32_t n;                                                                                                    \
    }
#define SP_ARGS_AXPBY(name, T)                                                                                         \
    struct sp_args_##name {                                                                                            \
        T *y;                                                                                                          \
        const T *x;                                                                                                    \
        T a;                                                                                                           \
        T b;                                                                                                           \
        uint32_t n;                                                                                                    \
    }

SP_ARGS_UNARY(copy_f32, float);
SP_ARGS_FILL(fill_f32, float);
SP_ARGS_BINARY(vecadd_f32, float);
SP_ARGS_UNARY(copy_f64, double);
SP_ARGS_FILL(fill_f64, double);
SP_ARGS_BINARY(vecadd_f64, double);
SP_ARGS_UNARY(copy_i32, int32_t);
SP_ARGS_FILL(fill_i32, int32_t);
SP_ARGS_BINARY(vecadd_i32, int32_t);
struct sp_args_saxpy_f32 {
    float *y;
    const float *x;
    float a;
    uint32_t n;
};
SP_ARGS_AXPBY(axpby_f32, float);
SP_ARGS_AXPBY(axpby_f64, double);
SP_ARGS_UNARY(relu_f32, float);
SP_ARGS_UNARY(relu_f64, double);
SP_ARGS_UNARY(relu_i32, int32_t);
SP_ARGS_UNARY(abs_f32, float);
SP_ARGS_UNARY(abs_f64, double);
SP_ARGS_UNARY(abs_i32, int32_t);
SP_ARGS_UNARY(neg_f32, float);
SP_ARGS_UNARY(neg_f64, double);
SP_ARGS_UNARY(neg_i32, int32_t);
SP_ARGS_UNARY(exp_f32, float);
SP_ARGS_UNARY(exp_f64, double);
SP_ARGS_UNARY(tanh_f32, float);
SP_ARGS_UNARY(tanh_f64, double);

#define SP_ARGS_MAP(name, T)                                                                                           \
    struct sp_args_##name {                                                                                            \
        T *y;                                                                                                          \
        const T *x[8]; /* arguments x0 to x7 of the manifest */                                                        \
        const uint32_t *program;                                                                                       \
        const T *consts;                                                                                               \
        uint32_t nops;                                                                                                 \
        uint32_t nconsts;                                                                                              \
        uint32_t n;                                                                                                    \
    }
SP_ARGS_MAP(map_f32, float);
SP_ARGS_MAP(map_f64, double);
SP_ARGS_MAP(map_i32, int32_t);
struct sp_args_fused_map {
    uint8_t *y;
    const uint8_t *x[8]; /* arguments x0 to x7 of the manifest */
    const uint32_t *program;
    const uint64_t *consts;
    const int64_t *geometry;
    uint64_t y_nbytes;
    uint64_t x0_nbytes;
    uint64_t x1_nbytes;
    uint64_t x2_nbytes;
    uint64_t x3_nbytes;
    uint64_t x4_nbytes;
    uint64_t x5_nbytes;
    uint64_t x6_nbytes;
    uint64_t x7_nbytes;
    uint32_t nwords;
    uint32_t nconsts;
    uint32_t ngeometry;
};

#define SP_ARGS_GEMM(name, T)                                                                                          \
    struct sp_args_##name {                                                                                            \
        T *c;                                                                                                          \
        const T *a;                                                                                                    \
        const T *b;                                                                                                    \
        const T *bias;                                                                                                 \
        uint32_t m;                                                                                                    \
        uint32_t n;                                                                                                    \
        uint32_t k;                                                                                                    \
        uint32_t rsa;                                                                                                  \
        uint32_t csa;                                                                                                  \
        uint32_t rsb;                                                                                                  \
        uint32_t csb;                                                                                                  \
        uint32_t rsc;                                                                                                  \
        uint32_t act;                                                                                                  \
    }
SP_ARGS_GEMM(gemm_f32, float);
SP_ARGS_GEMM(gemm_f64, double);

#define SP_ARGS_PACK_GEMM(name, T)                                                                                     \
    struct sp_args_##name {                                                                                            \
        uint8_t *out;                                                                                                  \
        uint64_t capacity;                                                                                             \
        const T *b;                                                                                                    \
        uint32_t n;                                                                                                    \
        uint32_t k;                                                                                                    \
        uint32_t rsb;                                                                                                  \
        uint32_t csb;                                                                                                  \
    }
SP_ARGS_PACK_GEMM(pack_gemm_f32, float);
SP_ARGS_PACK_GEMM(pack_gemm_f64, double);

struct sp_args_conv2d_f32 {
    float *y;
    const float *x;
    const float *w;
    const float *bias;
    uint32_t n;
    uint32_t c;
    uint32_t h;
    uint32_t w_in;
    uint32_t oc;
    uint32_t kh;
    uint32_t kw;
    uint32_t oh;
    uint32_t ow;
    uint32_t sh;
    uint32_t sw;
    uint32_t ph;
    uint32_t pw;
    uint32_t dh;
    uint32_t dw;
    uint32_t groups;
    uint32_t nhwc;
    uint32_t act;
};

/* From `n` on, the members are the same as those of sp_args_conv2d_f32. */
struct sp_args_pack_conv2d_f32 {
    void *out;
    uint64_t capacity;
    const float *w;
    uint32_t n;
    uint32_t c;
    uint32_t h;
    uint32_t w_in;
    uint32_t oc;
    uint32_t kh;
    uint32_t kw;
    uint32_t oh;
    uint32_t ow;
    uint32_t sh;
    uint32_t sw;
    uint32_t ph;
    uint32_t pw;
    uint32_t dh;
    uint32_t dw;
    uint32_t groups;
    uint32_t nhwc;
};

#define SP_ARGS_REDUCE(name, T, R)                                                                                     \
    struct sp_args_##name {                                                                                            \
        R *y;                                                                                                          \
        const T *x;                                                                                                    \
        uint32_t outer;                                                                                                \
        uint32_t n;                                                                                                    \
        uint32_t inner;                                                                                                \
    }
SP_ARGS_REDUCE(reduce_sum_f32, float, float);
SP_ARGS_REDUCE(reduce_sum_f64, double, double);
SP_ARGS_REDUCE(reduce_sum_i32, int32_t, int64_t);
SP_ARGS_REDUCE(reduce_max_f32, float, float);
SP_ARGS_REDUCE(reduce_max_f64, double, double);
SP_ARGS_REDUCE(reduce_max_i32, int32_t, int32_t);
SP_ARGS_REDUCE(reduce_min_f32, float, float);
SP_ARGS_REDUCE(reduce_min_f64, double, double);
SP_ARGS_REDUCE(reduce_min_i32, int32_t, int32_t);

#define SP_ARGS_LAYOUT(name)                                                                                           \
    struct sp_args_##name {                                                                                            \
        float *y;                                                                                                      \
        const float *x;                                                                                                \
        uint32_t n;                                                                                                    \
        uint32_t c;                                                                                                    \
        uint32_t h;                                                                                                    \
        uint32_t w;                                                                                                    \
    }
#define SP_ARGS_BLOCKED(name)                                                                                          \
    struct sp_args_##name {                                                                                            \
        float *y;                                                                                                      \
        const float *x;                                                                                                \
        uint32_t n;                                                                                                    \
        uint32_t c;                                                                                                    \
        uint32_t h;                                                                                                    \
        uint32_t w;                                                                                                    \
        uint32_t block;                                                                                                \
    }
SP_ARGS_LAYOUT(nchw_to_nhwc_f32);
SP_ARGS_LAYOUT(nhwc_to_nchw_f32);
SP_ARGS_BLOCKED(nchw_to_blocked_f32);
SP_ARGS_BLOCKED(blocked_to_nchw_f32);

#define SP_ARGS_STRIDED(name, T)                                                                                       \
    struct sp_args_##name {                                                                                            \
        T *dst;                                                                                                        \
        const T *src;                                                                                                  \
        uint32_t n[4];         /* arguments n0 to n3 of the manifest; both strides likewise have four numbers */         \
        int32_t dst_stride[4];                                                                                         \
        int32_t src_stride[4];                                                                                         \
        uint32_t dst_offset;                                                                                           \
        uint32_t src_offset;                                                                                           \
        uint32_t dst_n;                                                                                                \
        uint32_t src_n;                                                                                                \
    }
SP_ARGS_STRIDED(strided_u8, uint8_t);
SP_ARGS_STRIDED(strided_u16, uint16_t);
SP_ARGS_STRIDED(strided_u32, uint32_t);
SP_ARGS_STRIDED(strided_u64, uint64_t);

struct sp_args_peak_fma_f32 {
    uint64_t *flops;
    uint32_t iters;
};
struct sp_args_peak_fma_f64 {
    uint64_t *flops;
    uint32_t iters;
};
#endif
