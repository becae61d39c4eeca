/* Computes addresses of a map's elements, and gathers and scatters blocks of them, for any strides
 * and any alignment. */
#include "map.h"

#include <string.h>

void sp_map_indices(const struct sp_map_job *job, uint64_t at, uint64_t index[SP_MAP_DIMS])
{
    for (uint32_t d = job->ndim; d-- > 1;) {
        index[d] = at % job->shape[d];
        at /= job->shape[d];
    }
    index[0] = at;
}

char *sp_map_address(const struct sp_map_job *job, const struct sp_map_operand *x, const uint64_t index[SP_MAP_DIMS])
{
    char *p = x->base;
    for (uint32_t d = 0; d < job->ndim; d++)
        p += (int64_t)index[d] * x->stride[d];
    return p;
}

/* Advances an index to the first element of the next row. */
static void next_row(const struct sp_map_job *job, uint64_t index[SP_MAP_DIMS])
{
    uint32_t d = job->ndim - 1;
    index[d] = 0;
    while (d-- > 0) {
        if (++index[d] < job->shape[d] || d == 0)
            return;
        index[d] = 0;
    }
}

#define COPY_RUN(T)                                                                                                    \
    static void copy_run_##T(char *to, int64_t to_stride, const char *from, int64_t from_stride, size_t count)         \
    {                                                                                                                  \
        T v;                                                                                                           \
        if (from_stride == 0) {                                                                                        \
            memcpy(&v, from, sizeof v);                                                                                \
            for (size_t i = 0; i < count; i++)                                                                         \
                memcpy(to + (int64_t)i * to_stride, &v, sizeof v);                                                     \
            return;                                                                                                    \
        }                                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                                           \
            memcpy(&v, from + (int64_t)i * from_stride, sizeof v);                                                     \
            memcpy(to + (int64_t)i * to_stride, &v, sizeof v);                                                         \
        }                                                                                                              \
    }
COPY_RUN(uint8_t)
COPY_RUN(uint16_t)
COPY_RUN(uint32_t)
COPY_RUN(uint64_t)

static void copy_run(char *to, int64_t to_stride, const char *from, int64_t from_stride, size_t count, uint32_t nbytes)
{
    if (from_stride == nbytes && to_stride == nbytes)
        memcpy(to, from, count * nbytes);
    else if (nbytes == 8)
        copy_run_uint64_t(to, to_stride, from, from_stride, count);
    else if (nbytes == 1)
        copy_run_uint8_t(to, to_stride, from, from_stride, count);
    else if (nbytes == 2)
        copy_run_uint16_t(to, to_stride, from, from_stride, count);
    else
        copy_run_uint32_t(to, to_stride, from, from_stride, count);
}

/* Copies elements [at, at + count) of operand x to the contiguous block `to`. If `to` is NULL,
 * copies the block `from` to the operand instead. */
static void copy_block(const struct sp_map_job *job, const struct sp_map_operand *x, char *to, const char *from, uint64_t at,
                       size_t count)
{
    const uint32_t nbytes = sp_map_nbytes(x->type);
    const uint64_t row = job->shape[job->ndim - 1];
    const int64_t stride = x->stride[job->ndim - 1];
    uint64_t index[SP_MAP_DIMS];
    sp_map_indices(job, at, index);
    for (size_t done = 0, run; done < count; done += run) {
        const uint64_t left = row - index[job->ndim - 1];
        char *const there = sp_map_address(job, x, index);
        run = left < count - done ? (size_t)left : count - done;
        if (to)
            copy_run(to + done * nbytes, nbytes, there, stride, run, nbytes);
        else
            copy_run(there, stride, from + done * nbytes, nbytes, run, nbytes);
        next_row(job, index);
    }
}

void sp_map_gather(const struct sp_map_job *job, const struct sp_map_operand *x, char *to, uint64_t at, size_t count)
{
    copy_block(job, x, to, NULL, at, count);
}

void sp_map_scatter(const struct sp_map_job *job, const char *from, uint64_t at, size_t count)
{
    copy_block(job, &job->y, NULL, from, at, count);
}
