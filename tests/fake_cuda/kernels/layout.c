/* Layouts of four-dimensional f32 arrays, and strided copies; thread i writes element i of y, so a grid that is too small leaves the rest. */
#include "kernels.h"

#include <string.h>

struct layout_args {
    float *y;
    const float *x;
    uint32_t n, c, h, w, block; /* block: of the blocked ones only */
};

static int nchw_nhwc(const struct fk_launch *l, bool to_nhwc)
{
    const struct layout_args v = *(const struct layout_args *)l->args;
    const uint64_t pixels = (uint64_t)v.h * v.w, all = v.n * v.c * pixels, end = fk_smaller(all, fk_threads_x(l));
    FK_NEED(v.y, end);
    FK_NEED(v.x, all);
    for (uint64_t i = 0; i < end; i++) {
        const uint64_t fast = to_nhwc ? v.c : pixels, slow = to_nhwc ? pixels : v.c;
        const uint64_t image = i / (v.c * pixels), row = i / fast % slow, column = i % fast;
        v.y[i] = v.x[(image * fast + column) * slow + row];
    }
    return 0;
}

static int run_nchw_to_nhwc_f32(const struct fk_launch *l)
{
    return nchw_nhwc(l, true);
}

static int run_nhwc_to_nchw_f32(const struct fk_launch *l)
{
    return nchw_nhwc(l, false);
}

static int run_nchw_to_blocked_f32(const struct fk_launch *l)
{
    const struct layout_args v = *(const struct layout_args *)l->args;
    const uint64_t pixels = (uint64_t)v.h * v.w, block = v.block;
    if (block == 0)
        return CUDA_ERROR_LAUNCH_FAILED;
    const uint64_t blocks = (v.c + block - 1) / block;
    const uint64_t end = fk_smaller(v.n * blocks * block * pixels, fk_threads_x(l));
    FK_NEED(v.y, end);
    FK_NEED(v.x, v.n * v.c * pixels);
    for (uint64_t i = 0; i < end; i++) {
        const uint64_t pixel = i / block % pixels, image = i / (blocks * block * pixels);
        const uint64_t c = i / (block * pixels) % blocks * block + i % block;
        v.y[i] = c < v.c ? v.x[(image * v.c + c) * pixels + pixel] : 0.0f;
    }
    return 0;
}

static int run_blocked_to_nchw_f32(const struct fk_launch *l)
{
    const struct layout_args v = *(const struct layout_args *)l->args;
    const uint64_t pixels = (uint64_t)v.h * v.w, block = v.block;
    if (block == 0)
        return CUDA_ERROR_LAUNCH_FAILED;
    const uint64_t blocks = (v.c + block - 1) / block, end = fk_smaller(v.n * v.c * pixels, fk_threads_x(l));
    FK_NEED(v.y, end);
    FK_NEED(v.x, v.n * blocks * block * pixels);
    for (uint64_t i = 0; i < end; i++) {
        const uint64_t pixel = i % pixels, c = i / pixels % v.c, image = i / (v.c * pixels);
        v.y[i] = v.x[((image * blocks + c / block) * pixels + pixel) * block + c % block];
    }
    return 0;
}

struct strided_args {
    char *dst;
    const char *src;
    uint32_t n[4];
    int32_t dst_stride[4], src_stride[4];
    uint32_t dst_offset, src_offset, dst_n, src_n;
};

static int strided(const struct fk_launch *l, uint64_t size)
{
    const struct strided_args v = *(const struct strided_args *)l->args;
    const uint64_t all = (uint64_t)v.n[0] * v.n[1] * v.n[2] * v.n[3], end = fk_smaller(all, fk_threads_x(l));
    FK_NEED(v.dst, v.dst_n * size);
    FK_NEED(v.src, v.src_n * size);
    for (uint64_t i = 0; i < end; i++) {
        int64_t to = v.dst_offset, from = v.src_offset;
        uint64_t rest = i;
        for (int d = 3; d >= 0; rest /= v.n[d], d--) {
            to += (int64_t)(rest % v.n[d]) * v.dst_stride[d];
            from += (int64_t)(rest % v.n[d]) * v.src_stride[d];
        }
        if (to >= 0 && to < v.dst_n && from >= 0 && from < v.src_n)
            memcpy(v.dst + (uint64_t)to * size, v.src + (uint64_t)from * size, size);
    }
    return 0;
}

static int run_strided_u8(const struct fk_launch *l)
{
    return strided(l, 1);
}

static int run_strided_u16(const struct fk_launch *l)
{
    return strided(l, 2);
}

static int run_strided_u32(const struct fk_launch *l)
{
    return strided(l, 4);
}

static int run_strided_u64(const struct fk_launch *l)
{
    return strided(l, 8);
}

struct fk_kernel fk_kernels_layout[] = {
    {"nchw_to_nhwc_f32", "ppuuuu", run_nchw_to_nhwc_f32, {0}},
    {"nhwc_to_nchw_f32", "ppuuuu", run_nhwc_to_nchw_f32, {0}},
    {"nchw_to_blocked_f32", "ppuuuuu", run_nchw_to_blocked_f32, {0}},
    {"blocked_to_nchw_f32", "ppuuuuu", run_blocked_to_nchw_f32, {0}},
    {"strided_u8", "ppuuuuiiiiiiiiuuuu", run_strided_u8, {0}},
    {"strided_u16", "ppuuuuiiiiiiiiuuuu", run_strided_u16, {0}},
    {"strided_u32", "ppuuuuiiiiiiiiuuuu", run_strided_u32, {0}},
    {"strided_u64", "ppuuuuiiiiiiiiuuuu", run_strided_u64, {0}},
    {0},
};
