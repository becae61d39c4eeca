/* Matrix products the BLIS way: one loop nest (gemm.c) around a micro-kernel per instruction set and type (ukr.inc,
 * isa_*.c). gemm_* and the im2col convolution (conv2d.c) are two ways to feed it: they differ in how panels are
 * packed. */
#ifndef SP_CPU_GEMM_H
#define SP_CPU_GEMM_H
#include "kernel.h"

enum { SP_GEMM_MAX_MR = 16, SP_GEMM_MAX_NR = 32, SP_GEMM_MAX_TILE = SP_GEMM_MAX_MR * SP_GEMM_MAX_NR };

/* c[i*rsc + j] (+)= sum_p a[p*rows + i] * b[p*ldb + j] for a fixed number of rows i and all nr columns j; c is read
 * only if `add`. A packed b has ldb == nr. */
typedef void sp_ukr_fn(size_t k, const void *a, const void *b, size_t ldb, void *c, size_t rsc, int add);

/* panel[p*width + i] = source(first + i, p0 + p) for i < count and 0 for count <= i < width, p < k. */
typedef void sp_pack_fn(const void *source, size_t first, size_t count, size_t width, size_t p0, size_t k, void *panel);

/* What is known about one tile of c when it is complete. */
struct sp_gemm_finish {
    const void *bias_rows; /* of this tile's first row, or NULL */
    const void *bias_columns;
    uint32_t act;
};

struct sp_gemm_kernel {
    sp_ukr_fn *const *ukr; /* [rows - 1] for rows 1..mr */
    sp_pack_fn *pack;      /* of a struct sp_strided */
    /* c (+)= the top left rows x columns of tile[..][nr]. */
    void (*merge)(void *c, size_t rsc, const void *tile, size_t nr, size_t rows, size_t columns, int add);
    void (*finish)(void *c, size_t rsc, size_t rows, size_t columns, const struct sp_gemm_finish *how);
    uint32_t nbytes; /* of an element */
    uint32_t mr, nr;
    uint32_t mc, nc, kc; /* defaults: a (mc x kc) fits L2, b (kc x nc) L2/L3, a panel of b (kc x nr) L1 */
};

enum sp_gemm_type { SP_GEMM_F32 = 0, SP_GEMM_F64 = 1 };
extern const struct sp_gemm_kernel sp_gemm_ref[2], sp_gemm_neon[2], sp_gemm_avx2[2], sp_gemm_avx512[2];
extern const struct sp_gemm_kernel *const sp_gemm_kernels[4]; /* [enum sp_isa] -> [enum sp_gemm_type]; NULL: not here */

/* An ordinary strided matrix as a source of panels: element (i, p) is base[i*stride_i + p*stride_p]. */
struct sp_strided {
    const void *base;
    size_t stride_i, stride_p;
};

struct sp_gemm_job {
    const struct sp_gemm_kernel *kernel;
    size_t m, n, k;
    sp_pack_fn *pack_a, *pack_b;
    const void *a, *b;    /* their sources */
    const void *b_in_place; /* b itself when its rows are contiguous, b_in_place[p*ldb + j], else NULL */
    size_t ldb;
    void *c;
    size_t rsc;
    const void *bias_rows, *bias_columns; /* m or n of them, or NULL */
    uint32_t act;
    size_t mc, nc, kc;
};

/* mc, nc, kc of the job: the plan's where it names them, else the kernel's. mr and nr are always the micro-kernel's. */
void sp_gemm_choose(struct sp_gemm_job *job, const struct sp_tile_plan *plan);
/* Rows [m0, m1), columns [n0, n1) in the calling thread, with its scratch slots A and B. */
int sp_gemm_block(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t n0, size_t n1);
/* All of it, on as many threads as it is worth. */
int sp_gemm_run(const struct sp_gemm_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool);

/* The oracles: plain loops, f32 accumulated in double and rounded once. */
int sp_gemm_f32_naive(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);
int sp_gemm_f64_naive(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);

/* How many threads `flops` operations are worth: 1 below about a microsecond of work a thread. */
uint32_t sp_gemm_threads(double flops, const struct sp_tile_plan *plan, const struct sp_pool *pool);
#endif
