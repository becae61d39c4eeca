/* The inner loops of a matrix product: one slice of k of a block of c. nest.c divides products into
 * such slices. */
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

/* Divides rows into tiles of equal size, because a short last tile costs as much as a full one. */
static inline size_t tile_rows(size_t rows, size_t most)
{
    return rows <= most ? rows : pieces(rows, pieces(rows, most));
}

/* Returns v for the micro-kernel `ukr[v][rows - 1]` of struct sp_gemm_kernel that computes tiles of
 * this many columns. */
static inline size_t sp_gemm_variant(const struct sp_gemm_kernel *kernel, size_t columns)
{
    /* v is 0 for whole tiles, 1 or 2 for partial tiles of one or two vectors */
    return columns == kernel->nr ? 0 : columns * kernel->masked <= kernel->nr ? 1 : 2;
}

/* Where the loops find a panel of b. */
struct sp_gemm_panels {
    const char *packed; /* address of the slice's first panel */
    /* memory for panels of b that are packed right before their first use; NULL: all panels were
     * packed before the loops began */
    char *fresh;
    /* Panel number x lies in place (x & places) of `fresh`. If `places` is 1, the panels use two
     * places in turn. */
    size_t places;
    /* Address of column 0 of this slice of b, whose panels are read in place. NULL: all panels are
     * packed. */
    const char *in_place;
    /* Index of the first column whose panel is never read in place, but packed even if `in_place`
     * is not NULL. From this column on, reading a whole panel in place could pass the end of b. */
    size_t whole;
};

/* Returns 1 if sp_gemm_slice computes the tiles of c row by row, 0 if panel by panel. The part of c
 * has `columns` columns; `kc` is the number of terms. */
int sp_gemm_writes_rows(const struct sp_gemm_job *job, size_t columns, size_t kc);
/* Computes rows [m0, m1) and columns [j0, j1) of c, mc rows at a time, but only terms [p, p + kc)
 * of each sum. packed_a is memory for packed tiles of `a`, or NULL if `a` is read in place. */
void sp_gemm_slice(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t j0, size_t j1, size_t p, size_t kc,
                   const struct sp_gemm_panels *panels, char *packed_a, size_t mc);
#endif
