/* Arithmetic on counts that are at least 0. */
#ifndef SP_CPU_INTEGER_H
#define SP_CPU_INTEGER_H
#include <stdint.h>

static inline int64_t sp_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t sp_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the number of pieces of at most `of` into which x is divided. */
static inline int64_t sp_ceil_div(int64_t x, int64_t of)
{
    return (x + of - 1) / of;
}
#endif
