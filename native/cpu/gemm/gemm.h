/* Matrix products the BLIS way: one loop nest (nest.c) around a micro-kernel per instruction set and type (ukr.inc,
 * native/cpu/isa). gemm_* and the im2col convolution (conv2d.c) are two ways to feed it: they differ in how panels are
 * packed. */
#ifndef SP_CPU_GEMM_H
#define SP_CPU_GEMM_H
#include "cpu/runtime/kernel.h"

#include <stddef.h>

/* Bytes of b that threads pack together, beyond which each packs what it needs. */
enum { SP_GEMM_MOST_SHARED = 64 << 20 };
enum { SP_GEMM_MAX_MR = 16, SP_GEMM_MAX_NR = 32, SP_GEMM_MAX_TILE = SP_GEMM_MAX_MR * SP_GEMM_MAX_NR };

/* Memory that the micro-kernel asks for while it computes, a line a round, so that whoever wants it finds it in the second
 * cache: one line after another from `at` on; any address will do. `asking` asks for `runs` runs of `run` lines that are
 * `step` bytes apart; from the end of one to the next it is `turn` bytes. Then it asks for `rest`, again and again. */
struct sp_ahead {
    const char *at, *rest;
    size_t run, runs;
    ptrdiff_t step, turn;
};

/* One tile: c[i*rsc + j] (+)= sum_p a[i*rsa + p*csa] * b[p*ldb + j] for a fixed number of rows i; c is read only if
 * `add`. Strides in elements. A packed a has rsa 1 and csa its rows, a packed b has ldb nr. */
struct sp_ukr {
    const void *a, *b;
    void *c;
    size_t k, rsa, csa, ldb, rsc;
    size_t columns; /* for variants that may be cut short; the others take all nr */
    size_t tiles, b_step; /* `along` does so many, each beside the one before; their b is b_step bytes further on */
    int add, past, far;   /* far: c is not in the innermost cache, and better asked for before the terms are added up */
    struct sp_ahead ahead;
};
typedef void sp_ukr_fn(const struct sp_ukr *u);

/* panel[p*width + i] = source(first + i, p0 + p) for i < count and 0 for count <= i < width, p < k. */
typedef void sp_pack_fn(const void *source, size_t first, size_t count, size_t width, size_t p0, size_t k, void *panel);

/* What is known about one tile of c when it is complete. */
struct sp_gemm_finish {
    const void *bias_rows; /* of this tile's first row, or NULL */
    const void *bias_columns;
    uint32_t act;
};

/* y[i*sy + j*ldy] = sum_p matrix[i*ld + p] * x[j*ldx + p] for i < rows, j < columns. far: the matrix comes from memory. */
struct sp_dots {
    const void *matrix, *x;
    void *y;
    size_t rows, columns, k, ld, ldx, sy, ldy;
    int far;
};

struct sp_gemm_kernel {
    /* [0][rows - 1] for whole tiles; where there are `masked`, [v][rows - 1] for v vectors, the last one cut short. */
    sp_ukr_fn *const (*ukr)[SP_GEMM_MAX_MR];
    /* For whole tiles of mr rows: asking where ahead.runs is not 0; along for several of them, stored past the caches where
     * `past` is set: their rows then begin and end lines. NULL: there is none. */
    sp_ukr_fn *asking, *along;
    sp_pack_fn *pack;      /* of a struct sp_strided */
    /* c (+)= the top left rows x columns of tile[..][nr]. */
    void (*merge)(void *c, size_t rsc, const void *tile, size_t nr, size_t rows, size_t columns, int add);
    void (*finish)(void *c, size_t rsc, size_t rows, size_t columns, const struct sp_gemm_finish *how);
    uint32_t nbytes; /* of an element */
    uint32_t mr, nr;
    uint32_t mc, nc, kc; /* defaults: a (mc x kc) fits L2, b (kc x nc) L2/L3, a panel of b (kc x nr) L1 */
    uint32_t masked;     /* in so many vectors */
    uint32_t terms;      /* of a round: see struct sp_ukr's ahead */
    /* Up to so many bytes, b is better read where it is than packed: few tiles read a panel again where they are tall, and
     * vectors of 64 bytes cost nothing more from a second cache. Of 32 bytes and 6 rows they do, the more so as the arrays
     * of numpy begin 16 bytes behind a line (Zen 3: 45 GFLOPS in place at 128 cubed, 52 packed): the innermost cache. */
    uint32_t small_b;
    void (*gemv_dots)(const struct sp_dots *d);
    /* y[j] = sum_p matrix[p*ld + j] * x[p]. */
    void (*gemv_axpy)(size_t n, size_t k, const void *matrix, size_t ld, const void *x, void *y);
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
    int b_small; /* it is better read there, however many rows c has */
    /* All of b, packed before: the panel of columns [j, j + nr) and terms [p, p + kc) is at p * columns + j * kc, columns
     * being n rounded up to whole panels. NULL: the nest packs. */
    const void *b_packed;
    const void *a_in_place; /* a itself when it is better read where it is, a_in_place[i*rsa + p*csa], else NULL */
    size_t rsa, csa;
    const void *a_rows; /* a itself when its rows are contiguous, a_rows[i*rsa + p], else NULL; asked for before it is packed */
    size_t most_rows; /* of a micro-tile, where less than mr is better; 0: mr */
    void *c;
    size_t rsc;
    const void *bias_rows, *bias_columns; /* m or n of them, or NULL */
    uint32_t act;
    size_t mc, nc, kc;
};

/* mc, nc, kc of the job: the plan's where it names them, else the kernel's. mr and nr are always the micro-kernel's. */
void sp_gemm_choose(struct sp_gemm_job *job, const struct sp_tile_plan *plan);
/* The elements of a blob of b, and the blob: see b_packed. */
size_t sp_gemm_packed_elements(const struct sp_gemm_job *job);
void sp_gemm_pack(const struct sp_gemm_job *job, void *to, struct sp_pool *pool, uint32_t threads);
/* Rows [m0, m1), columns [n0, n1) in the calling thread, with its scratch slots A and B. */
int sp_gemm_block(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t n0, size_t n1);
/* All of it, on as many threads as it is worth. */
int sp_gemm_run(const struct sp_gemm_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool);

/* Small ones (small.c), of gemm_f32's or gemm_f64's arguments: would it be done straight from its operands? Then it is. */
int sp_gemm_takes_small(const struct sp_gemm_kernel *kernel, const void *args, const struct sp_tile_plan *plan);
void sp_gemm_small(const struct sp_gemm_kernel *kernel, const void *args);

/* Would the innermost cache hold a line of each of `rows` rows, and a few of the rest, at this distance from each other? */
int sp_gemm_rows_apart(size_t stride_nbytes, size_t rows);

/* One or a few rows or columns (gemv.c), b not packed: can it be done along memory? Then it is. */
enum { SP_GEMV_FEW_COLUMNS = 4 }; /* more than so many columns are never taken for vectors */
enum { SP_GEMV_FAR = 32 << 20 };  /* a matrix of more bytes is in no cache */
int sp_gemv_takes(const struct sp_gemm_job *job, size_t rsb, size_t csb);
int sp_gemv_run(const struct sp_gemm_job *job, const void *a, const void *b, size_t rsb, size_t csb,
                const struct sp_tile_plan *plan, struct sp_pool *pool);

/* The oracles: plain loops, f32 accumulated in double and rounded once. */
int sp_gemm_f32_naive(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);
int sp_gemm_f64_naive(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool);

/* What `flops` operations take one core, about, and how many threads they are worth. */
double sp_gemm_ns(double flops);
uint32_t sp_gemm_threads(double flops, const struct sp_tile_plan *plan, const struct sp_pool *pool);
#endif
