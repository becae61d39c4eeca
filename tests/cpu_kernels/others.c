/* Maps, element-wise kernels, reductions, layouts and strided copies against loops. */
#include "check.h"

#include "include/sp_map.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* sigmoid(x0*c0 + x1) - max(x0, x1*x1), and what of it the integers have. */
static const uint32_t real_program[] = {
    SP_MAP_INPUT, SP_MAP_CONST, SP_MAP_MUL, SP_MAP_INPUT | 1 << 8, SP_MAP_ADD, SP_MAP_SIGMOID,
    SP_MAP_INPUT, SP_MAP_INPUT | 1 << 8, SP_MAP_SQUARE, SP_MAP_MAX, SP_MAP_SUB};
static const uint32_t whole_program[] = {SP_MAP_INPUT, SP_MAP_CONST, SP_MAP_MUL, SP_MAP_INPUT | 1 << 8, SP_MAP_ADD,
                                         SP_MAP_RELU};

static double real_wanted(double x0, double x1, double c0)
{
    return 1 / (1 + exp(-(x0 * c0 + x1))) - fmax(x0, x1 * x1);
}

void check_map(void)
{
    const uint32_t n = PICK(0, 1, 3, 4, 15, 16, 17, 100, 1000, 5000);
    const uint32_t which = rnd_below(3);
    const int in_place = (int)rnd_below(2);
    const struct sp_tile_plan plan = {.threads = PICK(0, 1)};
    double *const found = f64_new(n);
    double *const wanted = f64_new(n);
    int rc;
    case_is("%s n %u in place %d", which == 0 ? "f32" : which == 1 ? "f64" : "i32", n, in_place);
#define MAP(T, NEW, ARGS, KERNEL, PROGRAM, STEPS, WANTED)                                                              \
    do {                                                                                                               \
        T *const x0 = NEW(n), *const x1 = NEW(n), *const c = NEW(1);                                                   \
        T *const y = in_place ? x0 : NEW(n);                                                                           \
        struct ARGS args = {y, {x0, x1}, PROGRAM, c, STEPS, 1, n};                                                     \
        for (uint32_t i = 0; i < n; i++)                                                                               \
            wanted[i] = (WANTED);                                                                                      \
        rc = routine(KERNEL, &args, &plan);                                                                            \
        for (uint32_t i = 0; i < n; i++)                                                                               \
            found[i] = (double)y[i];                                                                                   \
    } while (0)
    if (which == 0)
        MAP(float, f32_new, sp_args_map_f32, "map_f32", real_program, 11, real_wanted((double)x0[i], (double)x1[i], (double)c[0]));
    else if (which == 1)
        MAP(double, f64_new, sp_args_map_f64, "map_f64", real_program, 11, real_wanted(x0[i], x1[i], c[0]));
    else
        MAP(int32_t, i32_new, sp_args_map_i32, "map_i32", whole_program, 6, fmax(0, (double)x0[i] * c[0] + x1[i]));
    if (rc)
        fail("returned %d", rc);
    /* a few roundings, and exp's: 4 ulp of numbers below 5 */
    compare("y", found, wanted, n, which == 0 ? 3e-6 : which == 1 ? 6e-15 : 0, 1);
}

void check_spans(void)
{
    const uint32_t n = PICK(1, 2, 3, 15, 16, 17, 63, 64, 65, 1000);
    float *const x = f32_new(n), *const y = f32_new(n), *const z = f32_new(n);
    double *const found = f64_new(n);
    double *const wanted = f64_new(n);
    const uint32_t which = rnd_below(9);
    const float a = (float)rnd_below(1000) / 256, b = (float)rnd_below(1000) / -256;
    double tolerance = 2e-7; /* one rounding, or a fused one */
    const float *out = y;
    static const char *const names[] = {"copy_f32", "fill_f32", "vecadd_f32", "saxpy_f32", "axpby_f32",
                                        "relu_f32", "abs_f32",  "exp_f32",    "tanh_f32"};
    case_is("%s n %u", names[which], n);
    for (uint32_t i = 0; i < n; i++) {
        const double u = (double)x[i], v = (double)y[i];
        const double all[] = {u, (double)a, u + v, (double)a * u + v, (double)a * u + (double)b * v, u < 0 ? 0 : u, fabs(u),
                              exp(u), tanh(u)};
        wanted[i] = all[which];
    }
    if (which == 1) {
        span(names[which], &(struct sp_args_fill_f32){y, a, n}, n);
    } else if (which == 2) {
        span(names[which], &(struct sp_args_vecadd_f32){z, x, y, n}, n);
        out = z;
    } else if (which == 3) {
        span(names[which], &(struct sp_args_saxpy_f32){y, x, a, n}, n);
    } else if (which == 4) {
        span(names[which], &(struct sp_args_axpby_f32){y, x, a, b, n}, n);
        tolerance = 1e-6;
    } else {
        span(names[which], &(struct sp_args_copy_f32){y, x, n}, n); /* those of all unary ones are alike */
        tolerance = which == 7 || which == 8 ? 1e-6 : 0;
    }
    for (uint32_t i = 0; i < n; i++)
        found[i] = (double)out[i];
    compare("y", found, wanted, n, tolerance, 1);
}

void check_reduce(void)
{
    const uint32_t outer = PICK(1, 1, 2, 3, 17), n = PICK(1, 2, 3, 15, 16, 17, 63, 65, 255, 1025);
    const uint32_t inner = PICK(1, 1, 2, 3, 16, 33);
    const uint32_t op = rnd_below(3);
    const uint32_t type = rnd_below(3);
    const size_t size = (size_t)outer * n * inner, results = (size_t)outer * inner;
    const struct sp_tile_plan plan = {.threads = PICK(0, 1), .flags = PICK(0, SP_PLAN_DETERMINISTIC)};
    static const char *const names[3][3] = {{"reduce_sum_f32", "reduce_sum_f64", "reduce_sum_i32"},
                                            {"reduce_max_f32", "reduce_max_f64", "reduce_max_i32"},
                                            {"reduce_min_f32", "reduce_min_f64", "reduce_min_i32"}};
    const char *const name = names[op][type];
    double *const x = f64_new(size), *const found = f64_new(results), *const wanted = f64_new(results);
    int rc;
    case_is("%s outer %u n %u inner %u", name, outer, n, inner);
#define REDUCE(T, NEW, R)                                                                                              \
    do {                                                                                                               \
        T *const in = NEW(size);                                                                                       \
        R *const y = bytes_new(results * sizeof *y, sizeof *y);                                                        \
        struct {                                                                                                       \
            R *y;                                                                                                      \
            const T *x;                                                                                                \
            uint32_t outer, n, inner;                                                                                  \
        } args = {y, in, outer, n, inner};                                                                             \
        rc = routine(name, &args, &plan);                                                                              \
        for (size_t i = 0; i < size; i++)                                                                              \
            x[i] = (double)in[i];                                                                                      \
        for (size_t i = 0; i < results; i++)                                                                           \
            found[i] = (double)y[i];                                                                                   \
    } while (0)
    if (type == 0)
        REDUCE(float, f32_new, float);
    else if (type == 1)
        REDUCE(double, f64_new, double);
    else if (op == 0)
        REDUCE(int32_t, i32_new, int64_t);
    else
        REDUCE(int32_t, i32_new, int32_t);
    if (rc)
        fail("returned %d", rc);
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            double value = x[o * n * inner + i];
            for (size_t r = 1; r < n; r++) {
                const double v = x[(o * n + r) * inner + i];
                value = op == 0 ? value + v : op == 1 ? fmax(value, v) : fmin(value, v);
            }
            wanted[o * inner + i] = value;
        }
    const double tolerance = op || type == 2 ? 0 : type == 0 ? 1e-6 : 1e-14;
    compare("y", found, wanted, results, tolerance, sqrt(n));
}

void check_layout(void)
{
    const uint32_t n = PICK(1, 2, 3), c = PICK(1, 2, 3, 4, 5, 15, 16, 17, 33), h = PICK(1, 2, 5, 16), w = PICK(1, 3, 4, 17, 33);
    const uint32_t block = PICK(1, 4, 8, 16);
    const uint32_t blocks = (c + block - 1) / block;
    const size_t pixels = (size_t)h * w, size = n * c * pixels, padded = (size_t)n * blocks * block * pixels;
    const struct sp_tile_plan plan = {0};
    float *const x = f32_new(size), *const last = f32_new(size), *const back = f32_new(size);
    float *const blocked = f32_new(padded);
    case_is("n %u c %u h %u w %u block %u", n, c, h, w, block);
    if (routine("nchw_to_nhwc_f32", &(struct sp_args_nchw_to_nhwc_f32){last, x, n, c, h, w}, &plan) ||
        routine("nchw_to_blocked_f32", &(struct sp_args_nchw_to_blocked_f32){blocked, x, n, c, h, w, block}, &plan))
        fail("an error");
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < pixels; p++) {
            for (size_t j = 0; j < c; j++)
                if (last[(i * pixels + p) * c + j] != x[(i * c + j) * pixels + p])
                    fail("NHWC image %zu channel %zu pixel %zu", i, j, p);
            for (size_t j = 0; j < (size_t)blocks * block; j++) {
                const float wanted = j < c ? x[(i * c + j) * pixels + p] : 0;
                if (blocked[((i * blocks + j / block) * pixels + p) * block + j % block] != wanted)
                    fail("blocked image %zu channel %zu pixel %zu", i, j, p);
            }
        }
    if (routine("nhwc_to_nchw_f32", &(struct sp_args_nhwc_to_nchw_f32){back, last, n, c, h, w}, &plan) ||
        memcmp(back, x, size * sizeof *x))
        fail("back from NHWC");
    if (routine("blocked_to_nchw_f32", &(struct sp_args_blocked_to_nchw_f32){back, blocked, n, c, h, w, block}, &plan) ||
        memcmp(back, x, size * sizeof *x))
        fail("back from blocked");
}

/* One side of a strided copy: dimensions in any order, each with a gap, some reversed; arrays end where they must. */
static uint32_t strided_side(const uint32_t n[4], int32_t stride[4], uint32_t *offset, int broadcast)
{
    uint32_t order[4] = {0, 1, 2, 3}, extent = 1;
    *offset = 0;
    for (uint32_t d = 3; d; d--) {
        const uint32_t other = rnd_below(d + 1), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t d = order[k], step = extent + PICK(0, 0, 1, 2);
        const int backwards = rnd_below(3) == 0;
        stride[d] = backwards ? -(int32_t)step : (int32_t)step;
        if (broadcast && rnd_below(4) == 0) {
            stride[d] = 0;
            continue;
        }
        *offset += backwards ? step * (n[d] - 1) : 0;
        extent += step * (n[d] - 1);
    }
    return extent;
}

void check_strided(void)
{
    static const char *const names[] = {"strided_u8", "strided_u16", "strided_u32", "strided_u64"};
    const uint32_t which = rnd_below(4), size = 1u << which;
    const uint32_t n[4] = {PICK(1, 2, 3), PICK(1, 1, 4, 17), PICK(1, 3, 15, 16, 33), PICK(1, 2, 16, 31, 64)};
    const struct sp_tile_plan plan = {.threads = PICK(0, 1)};
    struct sp_args_strided_u8 args = {.n = {n[0], n[1], n[2], n[3]}};
    args.dst_n = strided_side(n, args.dst_stride, &args.dst_offset, 0);
    args.src_n = strided_side(n, args.src_stride, &args.src_offset, 1);
    uint8_t *const dst = bytes_new((size_t)args.dst_n * size, size), *const src = bytes_new((size_t)args.src_n * size, size);
    uint8_t *const wanted = bytes_new((size_t)args.dst_n * size, size);
    for (size_t i = 0; i < (size_t)args.dst_n * size; i++)
        dst[i] = (uint8_t)rnd();
    for (size_t i = 0; i < (size_t)args.src_n * size; i++)
        src[i] = (uint8_t)rnd();
    memcpy(wanted, dst, (size_t)args.dst_n * size);
    args.dst = dst;
    args.src = src;
    case_is("%s %u %u %u %u", names[which], n[0], n[1], n[2], n[3]);
    for (uint32_t i = 0; i < n[0] * n[1] * n[2] * n[3]; i++) {
        int64_t to = args.dst_offset, from = args.src_offset;
        for (uint32_t d = 4, rest = i; d--; rest /= n[d]) {
            to += (int64_t)(rest % n[d]) * args.dst_stride[d];
            from += (int64_t)(rest % n[d]) * args.src_stride[d];
        }
        memcpy(wanted + to * size, src + from * size, size);
    }
    if (routine(names[which], &args, &plan))
        fail("an error");
    if (memcmp(dst, wanted, (size_t)args.dst_n * size))
        fail("other elements");
    args.dst_n--;
    if (routine(names[which], &args, &plan) != -EINVAL)
        fail("a position beyond dst_n");
}
