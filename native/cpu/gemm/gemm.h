/* Matrix products c = a b in the manner of BLIS: one loop nest (nest.c) around a micro-kernel per
 * instruction set and type (ukr.inc, cpu/isa). The gemm kernels and the im2col convolution
 * (conv/im2col.c) differ in how they pack panels. */
#ifndef SP_CPU_GEMM_H
#define SP_CPU_GEMM_H
#include "cpu/runtime/kernel.h"

#include <stddef.h>

/* If the packed operand b has at most this many bytes, the threads together pack all of it once. If
 * it has more, each thread packs the part that it reads. */
enum { SP_GEMM_MOST_SHARED = 64 << 20 };
enum { SP_GEMM_MAX_MR = 16, SP_GEMM_MAX_NR = 32, SP_GEMM_MAX_TILE = SP_GEMM_MAX_MR * SP_GEMM_MAX_NR };

/* Cache lines that the micro-kernel prefetches to L2 while it computes, one line per round of
 * terms. Most micro-kernels prefetch successive lines from `at` on; `at` may be any address. The
 * micro-kernel `asking` of struct sp_gemm_kernel prefetches `runs` sequences of lines. A sequence
 * has `run` lines that are `step` bytes apart, and the next sequence begins `turn` bytes after the
 * end of this one. After the last sequence, `asking` prefetches the line at `rest` again and
 * again. */
struct sp_ahead {
    const char *at, *rest;
    size_t run, runs;
    ptrdiff_t step, turn;
};

/* The arguments of a micro-kernel, which computes one tile: c[i*rsc + j] (+)= sum_p a[i*rsa +
 * p*csa] * b[p*ldb + j] for a fixed number of rows i. c is read only if `add` is set. Strides are
 * in elements. If operand `a` is packed, rsa is 1 and csa is the number of rows. If operand b is
 * packed, ldb is nr. */
struct sp_ukr {
    const void *a, *b;
    void *c;
    size_t k, rsa, csa, ldb, rsc;
    /* columns of the tile; read only by micro-kernels of partial tiles, since others compute all
     * nr */
    size_t columns;
    /* The micro-kernel `along` (struct sp_gemm_kernel) computes `tiles` neighbouring tiles, whose
     * panels of b lie b_step bytes apart. */
    size_t tiles, b_step;
    /* add: add the product to c; past: write c with streaming stores, which bypass the caches; far:
     * c is not in L1, so prefetch it before summing terms */
    int add, past, far;
    struct sp_ahead ahead;
};
typedef void sp_ukr_fn(const struct sp_ukr *u);

/* Packs a panel: panel[p*width + i] = source(first + i, p0 + p) for i < count and 0 for count <= i
 * < width, p < k. */
typedef void sp_pack_fn(const void *source, size_t first, size_t count, size_t width, size_t p0, size_t k, void *panel);

/* The last steps for a complete tile of c: bias and activation. */
struct sp_gemm_finish {
    const void *bias_rows; /* address of the bias of the tile's first row; NULL: no bias per row */
    const void *bias_columns;
    uint32_t act;
};

/* The arguments of gemv_dots: y[i*sy + j*ldy] = sum_p matrix[i*ld + p] * x[j*ldx + p] for i < rows,
 * j < columns. `far` is 1 if the matrix is too large for the caches and comes from memory. */
struct sp_dots {
    const void *matrix, *x;
    void *y;
    size_t rows, columns, k, ld, ldx, sy, ldy;
    int far;
};

struct sp_gemm_kernel {
    /* Micro-kernels, indexed by [v][rows - 1]. Those of v = 0 compute whole tiles. If `masked` is
     * not 0, those of v = 1 to `masked` compute partial tiles of v vectors of columns, the last one
     * partial. */
    sp_ukr_fn *const (*ukr)[SP_GEMM_MAX_MR];
    /* Two more micro-kernels for whole tiles of mr rows; NULL: not available. `asking` can prefetch
     * any lines that a struct sp_ahead describes, not only successive ones. `along` computes
     * several tiles. If `past` of struct sp_ukr is set, `along` writes the tiles with streaming
     * stores, which bypass the caches; each row of c must then begin and end at a cache line. */
    sp_ukr_fn *asking, *along;
    sp_pack_fn *pack; /* packs the matrix that a struct sp_strided describes into panels */
    /* Stores the top left rows x columns of a tile, which has nr columns, to c, or adds them to c
     * if `add` is set. */
    void (*merge)(void *c, size_t rsc, const void *tile, size_t nr, size_t rows, size_t columns, int add);
    void (*finish)(void *c, size_t rsc, size_t rows, size_t columns, const struct sp_gemm_finish *how);
    uint32_t nbytes;
    uint32_t mr, nr;
    /* default block sizes: `a` (mc x kc) fits L2, b (kc x nc) L2 or L3, a panel of b (kc x nr)
     * L1 */
    uint32_t mc, nc, kc;
    /* number of vectors of the widest partial tile; 0: there are no micro-kernels for partial
     * tiles */
    uint32_t masked;
    /* number of terms that one round of a micro-kernel adds to each sum; a round prefetches one
     * line (struct sp_ahead) */
    uint32_t terms;
    /* An operand b of at most this many bytes is faster read in place than packed. With tall tiles
     * and 64-byte vectors, the limit is that b stays in L2: each panel of b is read again only a
     * few times, and loads from L2 are as fast as loads from L1. With 32-byte vectors and tiles of
     * 6 rows, the limit is the size of L1. There loads from L2 are slower, and numpy's arrays begin
     * 16 bytes after the start of a cache line. At 128 cubed, Zen 3 has 45 GFLOPS with b in place,
     * 52 with b packed. */
    uint32_t small_b;
    void (*gemv_dots)(const struct sp_dots *d);
    /* Computes y[j] = sum_p matrix[p*ld + j] * x[p]. */
    void (*gemv_axpy)(size_t n, size_t k, const void *matrix, size_t ld, const void *x, void *y);
};

enum sp_gemm_type { SP_GEMM_F32 = 0, SP_GEMM_F64 = 1 };
extern const struct sp_gemm_kernel sp_gemm_ref[2], sp_gemm_neon[2], sp_gemm_avx2[2], sp_gemm_avx512[2];
/* indexed by enum sp_isa, then enum sp_gemm_type; NULL: the build lacks this instruction set */
extern const struct sp_gemm_kernel *const sp_gemm_kernels[4];

/* A strided matrix as a source of panels: element (i, p) is base[i*stride_i + p*stride_p]. */
struct sp_strided {
    const void *base;
    size_t stride_i, stride_p;
};

struct sp_gemm_job {
    const struct sp_gemm_kernel *kernel;
    size_t m, n, k;
    sp_pack_fn *pack_a, *pack_b;
    const void *a, *b;      /* the `source` arguments of pack_a and pack_b */
    /* operand b if its rows are contiguous, as b_in_place[p*ldb + j], else NULL */
    const void *b_in_place;
    size_t ldb;
    int b_small; /* 1: operand b is better read in place, for any number of rows of c */
    /* All of b, packed before the call, or NULL. The panel of columns [j, j + nr) and terms [p, p +
     * kc) begins at p * columns + j * kc, where `columns` is n rounded up to whole panels. */
    const void *b_packed;
    /* operand `a` if it is better read in place, as a_in_place[i*rsa + p*csa], else NULL */
    const void *a_in_place;
    size_t rsa, csa;
    /* operand `a` if its rows are contiguous, as a_rows[i*rsa + p], else NULL; prefetched before
     * packing */
    const void *a_rows;
    /* The largest number of rows of a micro-tile, if tiles of fewer than mr rows are faster for
     * this job. 0: mr rows. */
    size_t most_rows;
    void *c;
    size_t rsc;
    /* bias_rows has a bias for each of the m rows of c, bias_columns one for each of the n columns;
     * NULL: no bias */
    const void *bias_rows, *bias_columns;
    uint32_t act;
    size_t mc, nc, kc;
};

/* Sets mc, nc and kc of the job to those of the plan, or the kernel's where the plan has 0. mr and
 * nr are always the micro-kernel's. */
void sp_gemm_choose(struct sp_gemm_job *job, const struct sp_tile_plan *plan);
/* sp_gemm_packed_elements returns the number of elements of b in packed form. sp_gemm_pack packs b
 * for b_packed. */
size_t sp_gemm_packed_elements(const struct sp_gemm_job *job);
void sp_gemm_pack(const struct sp_gemm_job *job, void *to, struct sp_pool *pool, uint32_t threads);
/* Computes rows [m0, m1), columns [n0, n1) of c in the calling thread, with its scratch memory
 * SP_SCRATCH_A and SP_SCRATCH_B. Returns 0 or -ENOMEM. */
int sp_gemm_block(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t n0, size_t n1);
/* Computes the whole product, on as many threads as are worth using. Returns 0 or -errno. */
int sp_gemm_run(const struct sp_gemm_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool);

/* Small products (small.c), from the arguments of gemm_f32 or gemm_f64. sp_gemm_takes_small returns
 * 1 if small.c can compute the product straight from its operands. sp_gemm_small computes it. */
int sp_gemm_takes_small(const struct sp_gemm_kernel *kernel, const void *args, const struct sp_tile_plan *plan);
void sp_gemm_small(const struct sp_gemm_kernel *kernel, const void *args);

/* Returns 1 if L1 can hold a cache line of each of `rows` rows at this distance, and a few other
 * lines. */
int sp_gemm_rows_fit_l1(size_t stride_nbytes, size_t rows);

/* Products with one or a few rows or columns (gemv.c), which need no packed b. sp_gemv_takes
 * returns 1 if gemv.c can compute the product, and can read the matrix (one of the two operands) in
 * the order of memory. sp_gemv_run computes the product. */
enum { SP_GEMV_FEW_COLUMNS = 4 }; /* up to this many columns of c, gemv.c can compute the product */
enum { SP_GEMV_FAR = 32 << 20 };  /* a matrix of more bytes is in no cache */
int sp_gemv_takes(const struct sp_gemm_job *job, size_t rsb, size_t csb);
int sp_gemv_run(const struct sp_gemm_job *job, const void *a, const void *b, size_t rsb, size_t csb,
                const struct sp_tile_plan *plan, struct sp_pool *pool);

/* The oracles of gemm: plain loops. f32 products are accumulated in double and rounded once. */
int sp_gemm_f32_naive(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);
int sp_gemm_f64_naive(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);

/* sp_gemm_ns estimates the ns of `flops` operations on one core. sp_gemm_threads returns the number
 * of threads that are worth using for them. */
double sp_gemm_ns(double flops);
uint32_t sp_gemm_threads(double flops, const struct sp_tile_plan *plan, const struct sp_pool *pool);
#endif
