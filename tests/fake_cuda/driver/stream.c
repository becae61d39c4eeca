/* "Stream Management". */
#include "../include/fake.h"

#include <stdlib.h>

/* The caller's own stream of CU_STREAM_PER_THREAD, one a context; the last used is remembered. */
static int per_thread(struct fk_context *ctx, struct fk_stream **out)
{
    static _Thread_local struct fk_stream *mine __attribute__((tls_model("initial-exec")));
    if (mine && mine->ctx == ctx && mine->handle) {
        *out = mine;
        return 0;
    }
    const int rc = fk_stream_make(ctx, 0, 0, out);
    if (rc == 0)
        mine = *out;
    return rc;
}

int fk_stream_of(struct fk_context *ctx, CUstream handle, struct fk_stream **out)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        *out = ctx->legacy;
        return 0;
    }
    if (handle == CU_STREAM_PER_THREAD)
        return per_thread(ctx, out);
    *out = fk_object(handle, FK_STREAM);
    return *out && (*out)->ctx == ctx ? 0 : CUDA_ERROR_INVALID_HANDLE;
}

/* For calls that take streams of other contexts too: `handle`'s own context has its say on errors. */
static int any_stream(CUstream handle, struct fk_stream **out)
{
    if ((uintptr_t)handle <= (uintptr_t)CU_STREAM_PER_THREAD)
        return fk_usable(fk_current) ? fk_stream_of(fk_current, handle, out) : fk_unusable(fk_current);
    *out = fk_object(handle, FK_STREAM);
    return *out ? 0 : CUDA_ERROR_INVALID_HANDLE;
}

static int create(struct fk_context *ctx, CUstream *stream, unsigned flags, int priority)
{
    struct fk_stream *made;
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = fk_stream_make(ctx, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority, &made);
    if (rc == 0)
        *stream = made->handle;
    return rc;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    FK_ENTER_CONTEXT(cuStreamCreate);
    return create(ctx, stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    FK_ENTER_CONTEXT(cuStreamCreateWithPriority);
    return create(ctx, stream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    FK_ENTER(cuStreamDestroy_v2);
    struct fk_stream *const s = fk_object(stream, FK_STREAM);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    fk_stream_retire(s);
    return 0;
}

CUresult cuStreamQuery(CUstream stream)
{
    struct fk_stream *s;
    FK_ENTER(cuStreamQuery);
    const int rc = any_stream(stream, &s);
    if (rc != 0)
        return rc;
    if (s->capture)
        return fk_capture_spoil(s->capture), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (atomic_load(&s->ctx->sticky))
        return atomic_load(&s->ctx->sticky);
    if (fk_reached(s, atomic_load(&s->head)))
        return atomic_load(&s->ctx->sticky);
    fk_kick(s);
    return CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    struct fk_stream *s;
    FK_ENTER(cuStreamSynchronize);
    int rc = any_stream(stream, &s);
    if (rc != 0)
        return rc;
    if (s->capture)
        return fk_capture_spoil(s->capture), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    rc = fk_stream_wait(s);
    fk_pool_sync(s->ctx->device);
    return rc;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    struct fk_stream *s;
    FK_ENTER(cuStreamGetCtx);
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = any_stream(stream, &s);
    if (rc == 0)
        *context = s->ctx->handle;
    return rc;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags)
{
    struct fk_stream *s;
    FK_ENTER(cuStreamGetFlags);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = any_stream(stream, &s);
    if (rc == 0)
        *flags = s->flags;
    return rc;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    struct fk_stream *s;
    FK_ENTER(cuStreamGetPriority);
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = any_stream(stream, &s);
    if (rc == 0)
        *priority = s->priority;
    return rc;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    struct fk_stream *s;
    FK_ENTER(cuStreamGetId);
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = any_stream(stream, &s);
    if (rc == 0)
        *id = s->id;
    return rc;
}

/* ---- ops of a few lines ---- */

int fk_run_nothing(struct fk_stream *stream, struct fk_op *op)
{
    (void)stream;
    (void)op;
    return 0;
}

int fk_run_wait(struct fk_stream *stream, struct fk_op *op)
{
    (void)stream;
    fk_await(op->wait.stream, op->wait.value); /* an error over there is not one here */
    return 0;
}

int fk_run_host(struct fk_stream *stream, struct fk_op *op)
{
    (void)stream;
    if (op->host.fn)
        op->host.fn(op->host.data);
    else
        op->host.callback(op->host.stream, 0, op->host.data);
    return 0;
}

void fk_op_drop(struct fk_op *op)
{
    if (op->run == fk_run_kernel) {
        if (FK_UNLIKELY(op->kernel.far != NULL))
            free(op->kernel.far);
    } else if (op->run == fk_run_copy)
        free(op->copy.staged);
    else if (op->run == fk_run_record)
        fk_event_release(op->record.event);
    else
        fk_graph_op_drop(op);
}

static int host_op(struct fk_context *ctx, CUstream stream, CUhostFn fn, CUstreamCallback callback, void *data)
{
    struct fk_stream *s;
    int rc = fk_stream_of(ctx, stream, &s);
    struct fk_op *const op = rc == 0 ? fk_begin(s, fk_run_host, FK_NO_ENGINE, &rc) : NULL;
    if (!op)
        return rc;
    op->host.fn = fn;
    op->host.callback = callback;
    op->host.data = data;
    op->host.stream = stream;
    fk_push(s, op);
    return 0;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data)
{
    FK_ENTER_CONTEXT(cuLaunchHostFunc);
    return fn ? host_op(ctx, stream, fn, NULL, data) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned flags)
{
    FK_ENTER_CONTEXT(cuStreamAddCallback);
    return callback && flags == 0 ? host_op(ctx, stream, NULL, callback, data) : CUDA_ERROR_INVALID_VALUE;
}
