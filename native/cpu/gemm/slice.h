/* One slice of k of a block of c: the inner loops of a matrix product. nest.c divides products into
 * slices. */
#ifndef SP_CPU_GEMM_SLICE_H
#define SP_CPU_GEMM_SLICE_H
#include "gemm.h"

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

static inline size_t pieces(size_t x, size_t of)
{
    return (x + of - 1) / of;
}

/* Equal tiles: a short last one costs as much. */
static inline size_t tile_rows(size_t rows, size_t most)
{
    return rows <= most ? rows : pieces(rows, pieces(rows, most));
}

/* Index of the micro-kernels (ukr of struct sp_gemm_kernel) for this many columns. */
static inline size_t sp_gemm_variant(const struct sp_gemm_kernel *kernel, size_t columns)
{
    return columns == kernel->nr ? 0 : columns * kernel->masked <= kernel->nr ? 1 : 2; /* masked in 2 vectors, or not at all */
}

/* Where the nest finds a panel of b. */
struct sp_gemm_panels {
    const char *packed;   /* the slice's first panel */
    char *fresh;          /* packed at a panel's first use; NULL: all were packed before */
    size_t places;        /* a mask: panel x is in place x & places; with 1, two places alternate */
    const char *in_place; /* this slice of k, from column 0; NULL: all are packed */
    size_t whole;         /* columns from here on are packed anyway: no byte behind them may be read */
};

/* 1 if this slice of c, with this many columns, is written along its rows. */
int sp_gemm_goes_along(const struct sp_gemm_job *job, size_t columns, size_t kc);
/* Rows [m0, m1), mc at a time, columns [j0, j1), terms [p, p + kc). packed_a: room for a; NULL: a
 * is read in place. */
void sp_gemm_slice(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t j0, size_t j1, size_t p, size_t kc,
                   const struct sp_gemm_panels *panels, char *packed_a, size_t mc);
#endif
