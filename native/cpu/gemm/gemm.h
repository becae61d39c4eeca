/* Matrix products in the manner of BLIS: one loop nest (nest.c) around a micro-kernel per
 * instruction set and type (ukr.inc, cpu/isa). gemm_* and the im2col convolution (conv/im2col.c)
 * differ in how they pack panels. */
#ifndef SP_CPU_GEMM_H
#define SP_CPU_GEMM_H
#include "cpu/runtime/kernel.h"

#include <stddef.h>

/* Bytes of b up to which threads pack b together; beyond, each packs its own part. */
enum { SP_GEMM_MOST_SHARED = 64 << 20 };
enum { SP_GEMM_MAX_MR = 16, SP_GEMM_MAX_NR = 32, SP_GEMM_MAX_TILE = SP_GEMM_MAX_MR * SP_GEMM_MAX_NR };

/* Lines that the micro-kernel prefetches to L2 while it computes, one line per round. Lines follow
 * each other from `at` on; any address is allowed. `asking` prefetches `runs` runs of `run` lines
 * that are `step` bytes apart, with `turn` bytes from the end of one run to the next. Then it
 * prefetches `rest` repeatedly. */
struct sp_ahead {
    const char *at, *rest;
    size_t run, runs;
    ptrdiff_t step, turn;
};

/* One tile: c[i*rsc + j] (+)= sum_p a[i*rsa + p*csa] * b[p*ldb + j] for a fixed number of rows i. c
 * is read only if `add`. Strides in elements. A packed a has rsa 1 and csa its rows; a packed b has
 * ldb nr. */
struct sp_ukr {
    const void *a, *b;
    void *c;
    size_t k, rsa, csa, ldb, rsc;
    size_t columns; /* for variants that may be narrower; the others take all nr */
    size_t tiles, b_step; /* `along` computes this many neighbouring tiles, whose b are b_step bytes apart */
    int add, past, far;   /* far: c is not in L1, so prefetch it before the terms are summed */
    struct sp_ahead ahead;
};
typedef void sp_ukr_fn(const struct sp_ukr *u);

/* panel[p*width + i] = source(first + i, p0 + p) for i < count and 0 for count <= i < width, p < k. */
typedef void sp_pack_fn(const void *source, size_t first, size_t count, size_t width, size_t p0, size_t k, void *panel);

/* The final steps for a complete tile of c. */
struct sp_gemm_finish {
    const void *bias_rows; /* for this tile's first row, or NULL */
    const void *bias_columns;
    uint32_t act;
};

/* y[i*sy + j*ldy] = sum_p matrix[i*ld + p] * x[j*ldx + p] for i < rows, j < columns. `far` is 1 if
 * the matrix is too large for the caches and comes from memory. */
struct sp_dots {
    const void *matrix, *x;
    void *y;
    size_t rows, columns, k, ld, ldx, sy, ldy;
    int far;
};

struct sp_gemm_kernel {
    /* [0][rows - 1] for whole tiles. With `masked`: [v][rows - 1] for v vectors, the last one
     * partial. */
    sp_ukr_fn *const (*ukr)[SP_GEMM_MAX_MR];
    /* For whole tiles of mr rows. `asking`: with ahead.runs > 0. `along`: several tiles, stored
     * past the caches if `past` is set, whose rows then begin and end lines. NULL: not
     * available. */
    sp_ukr_fn *asking, *along;
    sp_pack_fn *pack;      /* for a struct sp_strided */
    /* c (+)= the top left rows x columns of tile[..][nr]. */
    void (*merge)(void *c, size_t rsc, const void *tile, size_t nr, size_t rows, size_t columns, int add);
    void (*finish)(void *c, size_t rsc, size_t rows, size_t columns, const struct sp_gemm_finish *how);
    uint32_t nbytes; /* of an element */
    uint32_t mr, nr;
    uint32_t mc, nc, kc; /* defaults: a (mc x kc) fits L2, b (kc x nc) L2/L3, a panel of b (kc x nr) L1 */
    uint32_t masked;     /* vectors of the widest partial tile; 0: no variants for partial tiles */
    uint32_t terms;      /* terms of a sum per round; one prefetch per round (struct sp_ahead) */
    /* Up to this many bytes, b is better read in place than packed: tall tiles read few panels
     * again, and 64-byte vectors cost nothing more from L2. With 32-byte vectors and 6 rows L2 does
     * cost more, and numpy's arrays begin 16 bytes behind a line. Zen 3: 45 GFLOPS in place at 128
     * cubed, 52 packed. So the limit there is L1. */
    uint32_t small_b;
    void (*gemv_dots)(const struct sp_dots *d);
    /* y[j] = sum_p matrix[p*ld + j] * x[p]. */
    void (*gemv_axpy)(size_t n, size_t k, const void *matrix, size_t ld, const void *x, void *y);
};

enum sp_gemm_type { SP_GEMM_F32 = 0, SP_GEMM_F64 = 1 };
extern const struct sp_gemm_kernel sp_gemm_ref[2], sp_gemm_neon[2], sp_gemm_avx2[2], sp_gemm_avx512[2];
/* [enum sp_isa] -> [enum sp_gemm_type]; NULL: not in this build */
extern const struct sp_gemm_kernel *const sp_gemm_kernels[4];

/* An ordinary strided matrix as a source of panels: element (i, p) is base[i*stride_i +
 * p*stride_p]. */
struct sp_strided {
    const void *base;
    size_t stride_i, stride_p;
};

struct sp_gemm_job {
    const struct sp_gemm_kernel *kernel;
    size_t m, n, k;
    sp_pack_fn *pack_a, *pack_b;
    const void *a, *b;    /* their sources */
    const void *b_in_place; /* b if its rows are contiguous, b_in_place[p*ldb + j], else NULL */
    size_t ldb;
    int b_small; /* b is better read in place, for any number of rows of c */
    /* All of b, packed before: the panel of columns [j, j + nr) and terms [p, p + kc) is at p *
     * columns + j * kc. `columns` is n rounded up to whole panels. NULL: the nest packs. */
    const void *b_packed;
    const void *a_in_place; /* a if it is better read in place, a_in_place[i*rsa + p*csa], else NULL */
    size_t rsa, csa;
    const void *a_rows; /* a if its rows are contiguous, a_rows[i*rsa + p], else NULL; prefetched before it is packed */
    size_t most_rows; /* most rows of a micro-tile, if fewer than mr are better; 0: mr */
    void *c;
    size_t rsc;
    const void *bias_rows, *bias_columns; /* m or n of them, or NULL */
    uint32_t act;
    size_t mc, nc, kc;
};

/* Sets mc, nc, kc of the job: the plan's, else the kernel's. mr and nr are always the
 * micro-kernel's. */
void sp_gemm_choose(struct sp_gemm_job *job, const struct sp_tile_plan *plan);
/* The elements of b's blob, and the packing of it: see b_packed. */
size_t sp_gemm_packed_elements(const struct sp_gemm_job *job);
void sp_gemm_pack(const struct sp_gemm_job *job, void *to, struct sp_pool *pool, uint32_t threads);
/* Computes rows [m0, m1), columns [n0, n1) in the calling thread, with its scratch slots A and
 * B. */
int sp_gemm_block(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t n0, size_t n1);
/* Computes the whole product, on as many threads as pay. */
int sp_gemm_run(const struct sp_gemm_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool);

/* Small products (small.c), from the arguments of gemm_f32 or gemm_f64. First: 1 if small.c can
 * compute it straight from its operands. Then: computes it. */
int sp_gemm_takes_small(const struct sp_gemm_kernel *kernel, const void *args, const struct sp_tile_plan *plan);
void sp_gemm_small(const struct sp_gemm_kernel *kernel, const void *args);

/* 1 if L1 holds a line of each of `rows` rows at this distance, and a few others. */
int sp_gemm_rows_apart(size_t stride_nbytes, size_t rows);

/* One or a few rows or columns (gemv.c), b not packed. First: 1 if gemv.c can read along memory.
 * Then: computes it. */
enum { SP_GEMV_FEW_COLUMNS = 4 }; /* more columns are never computed as vectors */
enum { SP_GEMV_FAR = 32 << 20 };  /* a larger matrix, in bytes, is in no cache */
int sp_gemv_takes(const struct sp_gemm_job *job, size_t rsb, size_t csb);
int sp_gemv_run(const struct sp_gemm_job *job, const void *a, const void *b, size_t rsb, size_t csb,
                const struct sp_tile_plan *plan, struct sp_pool *pool);

/* The oracles: plain loops; f32 is accumulated in double and rounded once. */
int sp_gemm_f32_naive(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);
int sp_gemm_f64_naive(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);

/* Estimated ns of `flops` operations on one core, and the number of threads that pay. */
double sp_gemm_ns(double flops);
uint32_t sp_gemm_threads(double flops, const struct sp_tile_plan *plan, const struct sp_pool *pool);
#endif
