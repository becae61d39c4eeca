/* Arithmetic of counts, all of them at least 0 here. */
#ifndef SP_CPU_WHOLE_H
#define SP_CPU_WHOLE_H
#include <stdint.h>

static inline int64_t sp_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t sp_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* How many pieces of at most `of` make x. */
static inline int64_t sp_pieces(int64_t x, int64_t of)
{
    return (x + of - 1) / of;
}
#endif
