/* Stream capture: "Stream Management" (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode) and the section "Creating a
 * Graph Using Stream Capture" of the programming guide. A call that a capture prohibits fails, and the capture is invalid
 * from then on. */
#include "../include/fake.h"

#include <stdlib.h>

enum { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 }; /* CUstreamCaptureMode */
enum { NONE = 0, ACTIVE = 1, INVALIDATED = 2 };     /* CUstreamCaptureStatus */

struct fk_capture {
    struct fk_graph *graph;
    struct fk_stream *origin;
    const int *thread; /* the `mode_here` of the thread that began it */
    int mode;
    _Atomic bool invalid;
    struct fk_capture *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fk_capture *captures; /* those that have not ended */
_Atomic int fk_captures;
static _Thread_local int mode_here __attribute__((tls_model("initial-exec")));

/* The reference calls them "potentially unsafe" and names cudaMalloc and cudaEventQuery only. Here: what waits, what asks
 * whether work has ended, and what is not ordered by a stream. A real driver may prohibit fewer. */
static const bool unsafe[FK_CALLS] = {
    [FK_cuMemAlloc_v2] = true, [FK_cuMemFree_v2] = true, [FK_cuMemAllocHost_v2] = true, [FK_cuMemHostAlloc] = true,
    [FK_cuMemFreeHost] = true, [FK_cuMemHostRegister_v2] = true, [FK_cuMemHostUnregister] = true,
    [FK_cuIpcOpenMemHandle_v2] = true, [FK_cuIpcCloseMemHandle] = true, [FK_cuMemPoolCreate] = true,
    [FK_cuMemPoolDestroy] = true, [FK_cuMemPoolTrimTo] = true, [FK_cuMemcpy] = true, [FK_cuMemcpyHtoD_v2] = true,
    [FK_cuMemcpyDtoH_v2] = true, [FK_cuMemcpyDtoD_v2] = true, [FK_cuMemcpyPeer] = true, [FK_cuMemsetD8_v2] = true,
    [FK_cuMemsetD16_v2] = true, [FK_cuMemsetD32_v2] = true, [FK_cuStreamQuery] = true, [FK_cuStreamSynchronize] = true,
    [FK_cuEventQuery] = true, [FK_cuEventSynchronize] = true, [FK_cuCtxSynchronize] = true, [FK_cuCtxCreate_v2] = true,
    [FK_cuCtxCreate_v4] = true, [FK_cuCtxDestroy_v2] = true, [FK_cuDevicePrimaryCtxRetain] = true,
    [FK_cuDevicePrimaryCtxRelease_v2] = true, [FK_cuDevicePrimaryCtxReset_v2] = true, [FK_cuModuleLoadData] = true,
    [FK_cuModuleLoadDataEx] = true, [FK_cuModuleUnload] = true,
};

int fk_capture_allows(enum fk_call_id id)
{
    int rc = 0;
    if (!unsafe[id] || mode_here == RELAXED)
        return 0;
    pthread_mutex_lock(&lock);
    for (struct fk_capture *c = captures; c; c = c->next) {
        const bool own = c->thread == &mode_here;
        if (own ? c->mode != RELAXED : c->mode == GLOBAL && mode_here == GLOBAL) {
            atomic_store(&c->invalid, true);
            rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

bool fk_capture_valid(const struct fk_capture *capture)
{
    return !atomic_load(&capture->invalid);
}

void fk_capture_spoil(struct fk_capture *capture)
{
    pthread_mutex_lock(&lock);
    for (struct fk_capture *c = captures; c; c = c->next)
        if (c == capture)
            atomic_store(&c->invalid, true);
    pthread_mutex_unlock(&lock);
}

bool fk_capture_going_on(const struct fk_capture *capture)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (const struct fk_capture *c = captures; c; c = c->next)
        found = found || c == capture;
    pthread_mutex_unlock(&lock);
    return found;
}

int fk_capture_op(struct fk_stream *stream, struct fk_op *op)
{
    return fk_graph_append(stream->capture->graph, op);
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    FK_ENTER(cuThreadExchangeStreamCaptureMode);
    if (!mode || *mode < GLOBAL || *mode > RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    const int before = mode_here;
    mode_here = *mode;
    *mode = before;
    return 0;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    struct fk_stream *s;
    FK_ENTER_CONTEXT(cuStreamBeginCapture_v2);
    const int rc = fk_stream_of(ctx, stream, &s);
    if (rc != 0)
        return rc;
    if (mode < GLOBAL || mode > RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct fk_capture *const capture = calloc(1, sizeof *capture);
    if (!capture || !(capture->graph = fk_graph_new()))
        return free(capture), CUDA_ERROR_OUT_OF_MEMORY;
    capture->origin = s;
    capture->thread = &mode_here;
    capture->mode = mode;
    pthread_mutex_lock(&lock);
    capture->next = captures;
    captures = capture;
    atomic_fetch_add(&fk_captures, 1);
    pthread_mutex_unlock(&lock);
    s->capture = capture;
    return 0;
}

/* No stream captures for it any more, and it prohibits nothing. */
static void end(struct fk_capture *capture, struct fk_context *ctx)
{
    pthread_mutex_lock(&lock);
    struct fk_capture **at = &captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    atomic_fetch_sub(&fk_captures, 1);
    pthread_mutex_unlock(&lock);
    capture->origin->capture = NULL;
    pthread_mutex_lock(&ctx->lock);
    for (struct fk_stream *other = ctx->streams; other; other = other->sibling)
        if (other->capture == capture)
            other->capture = NULL;
    pthread_mutex_unlock(&ctx->lock);
}

void fk_capture_abandon(struct fk_stream *stream)
{
    struct fk_capture *const capture = stream->capture;
    stream->capture = NULL;
    if (capture->origin != stream)
        return;
    end(capture, stream->ctx);
    fk_graph_free(capture->graph);
    free(capture);
}

/* Streams that joined by an event leave the capture with the one that began it. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    struct fk_stream *s;
    FK_ENTER_CONTEXT(cuStreamEndCapture);
    int rc = fk_stream_of(ctx, stream, &s);
    if (rc != 0)
        return rc;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    struct fk_capture *const capture = s->capture;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != s)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != RELAXED && capture->thread != &mode_here)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    end(capture, ctx);
    *graph = NULL;
    if (fk_capture_valid(capture)) {
        *graph = fk_graph_handle(capture->graph);
    } else {
        fk_graph_free(capture->graph);
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    free(capture);
    return rc;
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    struct fk_stream *s;
    FK_ENTER_CONTEXT(cuStreamIsCapturing);
    const int rc = fk_stream_of(ctx, stream, &s);
    if (rc != 0)
        return rc;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *status = !s->capture ? NONE : fk_capture_valid(s->capture) ? ACTIVE : INVALIDATED;
    return 0;
}
