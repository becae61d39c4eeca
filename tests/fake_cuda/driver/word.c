/* "Stream Memory Operations": a stream writes a word, or waits for one. */
#include "../include/fake.h"

enum { GEQ = 0, EQ = 1, AND = 2, NOR = 3 }; /* CUstreamWaitValue_flags */

static uint64_t load(uint64_t address, unsigned size)
{
    const void *const at = (const void *)(uintptr_t)address;
    return size == 4 ? __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE)
                     : __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

static int run_write(struct fk_stream *stream, struct fk_op *op)
{
    void *const at = (void *)(uintptr_t)op->word.address;
    if (!fk_reachable(stream->ctx, op->word.address, op->word.size))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (op->word.size == 4)
        __atomic_store_n((uint32_t *)at, (uint32_t)op->word.value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)at, op->word.value, __ATOMIC_RELEASE);
    return 0;
}

static bool holds(const struct fk_op *op)
{
    const uint64_t now = load(op->word.address, op->word.size), value = op->word.value;
    switch (op->word.flags & 3) {
    case GEQ: /* "(int)(*addr - value) >= 0": it may wrap around */
        return op->word.size == 4 ? (int32_t)((uint32_t)now - (uint32_t)value) >= 0 : (int64_t)(now - value) >= 0;
    case EQ: return now == value;
    case AND: return (now & value) != 0;
    default: return ~(now | value) << (64 - 8 * op->word.size) != 0;
    }
}

static int run_wait(struct fk_stream *stream, struct fk_op *op)
{
    while (!atomic_load(&stream->ctx->dying)) {
        if (!fk_reachable(stream->ctx, op->word.address, op->word.size))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (holds(op))
            return 0;
        fk_sleep_until(fk_now() + 20000);
    }
    return 0;
}

static int word_op(struct fk_context *ctx, CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags,
                   unsigned size, fk_run *run)
{
    struct fk_stream *s;
    int rc = fk_stream_of(ctx, stream, &s);
    if (rc != 0)
        return rc;
    if (address % size != 0 || !fk_reachable(ctx, address, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct fk_op *const op = fk_begin(s, run, FK_NO_ENGINE, &rc);
    if (!op)
        return rc;
    op->word.address = address;
    op->word.value = value;
    op->word.flags = flags;
    op->word.size = size;
    fk_push(s, op);
    return 0;
}

#define WORD(name, T, size, run)                                                                                       \
    CUresult name(CUstream stream, CUdeviceptr address, T value, unsigned flags)                                       \
    {                                                                                                                  \
        FK_ENTER_CONTEXT(name);                                                                                        \
        return word_op(ctx, stream, address, value, flags, size, run);                                                 \
    }
WORD(cuStreamWriteValue32_v2, uint32_t, 4, run_write)
WORD(cuStreamWriteValue64_v2, uint64_t, 8, run_write)
WORD(cuStreamWaitValue32_v2, uint32_t, 4, run_wait)
WORD(cuStreamWaitValue64_v2, uint64_t, 8, run_wait)
