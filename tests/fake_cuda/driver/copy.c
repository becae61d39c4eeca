/* Copies and fills: "Memory Management", with the behaviour of section "API synchronization behavior". */
#include "../include/fake.h"

#include <stdlib.h>
#include <string.h>

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

int fk_run_copy(struct fk_stream *stream, struct fk_op *op)
{
    const struct fk_copy_op *const c = &op->copy;
    (void)stream;
    const bool device_src = op->engine != FK_H2D, device_dst = op->engine != FK_D2H;
    if ((device_src && !fk_in_block(c->src, c->nbytes)) || (device_dst && !fk_in_block(c->dst, c->nbytes)))
        return CUDA_ERROR_ILLEGAL_ADDRESS; /* freed since */
    memmove(at(c->dst), c->staged ? c->staged : at(c->src), c->nbytes);
    atomic_fetch_add_explicit(&fk_model.moved[op->engine], c->nbytes, memory_order_relaxed);
    return 0;
}

int fk_run_fill(struct fk_stream *stream, struct fk_op *op)
{
    const struct fk_fill_op *const f = &op->fill;
    const uint64_t span = f->height ? f->pitch * (f->height - 1) + f->width * f->size : 0;
    if (!fk_reachable(stream->ctx, f->dst, span))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t y = 0; y < f->height; y++) {
        unsigned char *const row = at(f->dst + y * f->pitch);
        if (f->size == 1)
            memset(row, (int)f->value, f->width);
        else
            for (uint64_t x = 0; x < f->width; x++)
                memcpy(row + x * f->size, &f->value, f->size); /* little endian */
    }
    return 0;
}

enum side { HOST, DEVICE, UNIFIED };

/* Queues a copy. Pageable memory: what is read from it is staged before the call returns; what is written to it is
 * there when the call returns. */
static int copy(struct fk_context *ctx, uint64_t dst, enum side to, uint64_t src, enum side from, size_t nbytes,
                CUstream stream, bool wait)
{
    struct fk_block d = {0}, s = {0};
    struct fk_stream *on;
    int rc = fk_stream_of(ctx, stream, &on);
    if (rc != 0)
        return rc;
    if (nbytes == 0)
        return wait ? fk_stream_wait(on) : 0;
    const bool know_d = fk_heap_find(dst, &d), know_s = fk_heap_find(src, &s);
    if ((to == DEVICE && !know_d) || (from == DEVICE && !know_s) || !dst || !src)
        return CUDA_ERROR_INVALID_VALUE;
    if ((know_d && !fk_in_block(dst, nbytes)) || (know_s && !fk_in_block(src, nbytes)))
        return CUDA_ERROR_INVALID_VALUE;
    const bool in_d = know_d && (d.where == FK_DEVICE || d.where == FK_IMPORTED);
    const bool in_s = know_s && (s.where == FK_DEVICE || s.where == FK_IMPORTED);
    const enum fk_engine engine = in_d && in_s ? (d.ordinal == s.ordinal ? FK_D2D : FK_PEER) : in_d ? FK_H2D : FK_D2H;
    if (on->capture && (wait || (engine == FK_H2D && !know_s) || (engine == FK_D2H && !know_d)))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    void *staged = NULL;
    if (!know_s && !wait) {
        staged = malloc(nbytes);
        if (!staged)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(staged, at(src), nbytes);
    }
    struct fk_op *const op = fk_begin(on, fk_run_copy, engine, &rc);
    if (!op)
        return free(staged), rc;
    op->copy = (struct fk_copy_op){dst, src, nbytes, staged};
    const uint64_t ticket = fk_push(on, op);
    return wait || !know_d ? fk_await(on, ticket) : 0;
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t nbytes)
{
    FK_ENTER_CONTEXT(cuMemcpy);
    return copy(ctx, dst, UNIFIED, src, UNIFIED, nbytes, NULL, true);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream)
{
    FK_ENTER_CONTEXT(cuMemcpyAsync);
    return copy(ctx, dst, UNIFIED, src, UNIFIED, nbytes, stream, false);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t nbytes)
{
    FK_ENTER_CONTEXT(cuMemcpyHtoD_v2);
    return copy(ctx, dst, DEVICE, (uint64_t)(uintptr_t)src, HOST, nbytes, NULL, true);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t nbytes)
{
    FK_ENTER_CONTEXT(cuMemcpyDtoH_v2);
    return copy(ctx, (uint64_t)(uintptr_t)dst, HOST, src, DEVICE, nbytes, NULL, true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t nbytes)
{
    FK_ENTER_CONTEXT(cuMemcpyDtoD_v2);
    return copy(ctx, dst, DEVICE, src, DEVICE, nbytes, NULL, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t nbytes, CUstream stream)
{
    FK_ENTER_CONTEXT(cuMemcpyHtoDAsync_v2);
    return copy(ctx, dst, DEVICE, (uint64_t)(uintptr_t)src, HOST, nbytes, stream, false);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t nbytes, CUstream stream)
{
    FK_ENTER_CONTEXT(cuMemcpyDtoHAsync_v2);
    return copy(ctx, (uint64_t)(uintptr_t)dst, HOST, src, DEVICE, nbytes, stream, false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream)
{
    FK_ENTER_CONTEXT(cuMemcpyDtoDAsync_v2);
    return copy(ctx, dst, DEVICE, src, DEVICE, nbytes, stream, false);
}

/* Between devices, whether they reach each other or not: then the driver goes by the host. */
static int peer(struct fk_context *ctx, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                size_t nbytes, CUstream stream, bool wait)
{
    struct fk_block d, s;
    const struct fk_context *const to = fk_object(dst_context, FK_CONTEXT), *const from = fk_object(src_context, FK_CONTEXT);
    if (!to || !from)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (nbytes && (!fk_heap_find(dst, &d) || !fk_heap_find(src, &s) || d.ordinal != to->device->ordinal ||
                   s.ordinal != from->device->ordinal))
        return CUDA_ERROR_INVALID_VALUE;
    return copy(ctx, dst, DEVICE, src, DEVICE, nbytes, stream, wait);
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t nbytes)
{
    FK_ENTER_CONTEXT(cuMemcpyPeer);
    return peer(ctx, dst, dst_context, src, src_context, nbytes, NULL, true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t nbytes,
                           CUstream stream)
{
    FK_ENTER_CONTEXT(cuMemcpyPeerAsync);
    return peer(ctx, dst, dst_context, src, src_context, nbytes, stream, false);
}

static int fill(struct fk_context *ctx, CUdeviceptr dst, unsigned value, unsigned size, size_t n, CUstream stream,
                bool wait)
{
    struct fk_stream *on;
    int rc = fk_stream_of(ctx, stream, &on);
    if (rc != 0)
        return rc;
    if (dst % size != 0 || n > UINT64_MAX / size || !fk_in_block(dst, n * size))
        return CUDA_ERROR_INVALID_VALUE;
    if (n == 0)
        return 0;
    struct fk_op *const op = fk_begin(on, fk_run_fill, FK_D2D, &rc);
    if (!op)
        return rc;
    op->fill = (struct fk_fill_op){dst, 0, n, 1, value, size};
    const uint64_t ticket = fk_push(on, op);
    return wait ? fk_await(on, ticket) : 0;
}

#define FILL(bits, T)                                                                                                  \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr dst, T value, size_t n)                                                  \
    {                                                                                                                  \
        FK_ENTER_CONTEXT(cuMemsetD##bits##_v2);                                                                        \
        return fill(ctx, dst, value, sizeof(T), n, NULL, true);                                                        \
    }                                                                                                                  \
    CUresult cuMemsetD##bits##Async(CUdeviceptr dst, T value, size_t n, CUstream stream)                               \
    {                                                                                                                  \
        FK_ENTER_CONTEXT(cuMemsetD##bits##Async);                                                                      \
        return fill(ctx, dst, value, sizeof(T), n, stream, false);                                                     \
    }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)
