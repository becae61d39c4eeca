/* "Primary Context Management", "Context Management", "Peer Context Memory Access". */
#include "../include/fake.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 32 };
_Thread_local struct fk_context *fk_current __attribute__((tls_model("initial-exec")));
static _Thread_local struct fk_context *stack[DEPTH]; /* below the current one */
static _Thread_local int depth;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int process_sticky; /* FK_STICKY_PROCESS */

int fk_unusable(const struct fk_context *ctx)
{
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return atomic_load(&ctx->alive) ? atomic_load(&ctx->sticky) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void fk_context_fail(struct fk_context *ctx, int result)
{
    int none = 0;
    atomic_compare_exchange_strong(&ctx->sticky, &none, result);
    if (fk_settings.sticky == FK_STICKY_PROCESS)
        atomic_store(&process_sticky, result);
}

/* Contexts themselves are never freed: somebody may have one current. */
static int make(struct fk_device *device, unsigned flags, bool primary, struct fk_context **out)
{
    struct fk_context *const ctx = calloc(1, sizeof *ctx);
    if (atomic_load(&process_sticky))
        return free(ctx), atomic_load(&process_sticky);
    if (!ctx || !(ctx->handle = fk_handle_new(FK_CONTEXT, ctx)))
        return free(ctx), CUDA_ERROR_OUT_OF_MEMORY;
    ctx->device = device;
    ctx->flags = flags;
    ctx->primary = primary;
    ctx->limits[0] = 1024; /* CU_LIMIT_STACK_SIZE, PRINTF_FIFO_SIZE, MALLOC_HEAP_SIZE */
    ctx->limits[1] = 1 << 20;
    ctx->limits[2] = 8 << 20;
    pthread_mutex_init(&ctx->lock, NULL);
    atomic_store(&ctx->alive, true);
    const int rc = fk_stream_legacy(ctx);
    if (rc != 0) {
        fk_handle_free(ctx->handle);
        return rc;
    }
    *out = ctx;
    return 0;
}

/* Waits for its work unless that failed or never ends; then all that it owns is gone. */
static void destroy(struct fk_context *ctx)
{
    atomic_store(&ctx->dying, true);
    fk_context_wait(ctx);
    atomic_store(&ctx->alive, false);
    while (ctx->streams)
        fk_stream_retire(ctx->streams);
    fk_stream_retire(ctx->legacy);
    fk_events_drop_context(ctx);
    fk_modules_drop_context(ctx);
    fk_heap_free_context(ctx);
    fk_handle_free(ctx->handle);
    if (fk_current == ctx && !ctx->primary)
        fk_current = depth > 0 ? stack[--depth] : NULL;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    FK_ENTER(cuDevicePrimaryCtxRetain);
    struct fk_device *const dev = fk_device_of(device);
    int rc = 0;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!dev)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    if (!dev->primary)
        rc = make(dev, 0, true, &dev->primary);
    if (rc == 0) {
        dev->retained++;
        *context = dev->primary->handle;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int give_up(CUdevice device, bool all)
{
    struct fk_device *const dev = fk_device_of(device);
    int rc = 0;
    if (!dev)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    if (!all && dev->retained == 0)
        rc = CUDA_ERROR_INVALID_CONTEXT;
    else if ((all || --dev->retained == 0) && dev->primary) {
        if (all && fk_settings.sticky != FK_STICKY_CONTEXT)
            rc = atomic_load(&dev->primary->sticky);
        destroy(dev->primary);
        dev->primary = NULL;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    FK_ENTER(cuDevicePrimaryCtxRelease_v2);
    return give_up(device, false);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    FK_ENTER(cuDevicePrimaryCtxReset_v2);
    return give_up(device, true);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    FK_ENTER(cuDevicePrimaryCtxSetFlags_v2);
    const struct fk_device *const dev = fk_device_of(device);
    if (!dev)
        return CUDA_ERROR_INVALID_DEVICE;
    if (dev->primary)
        dev->primary->flags = flags;
    return 0;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    FK_ENTER(cuDevicePrimaryCtxGetState);
    const struct fk_device *const dev = fk_device_of(device);
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    if (!dev)
        return CUDA_ERROR_INVALID_DEVICE;
    *active = dev->primary != NULL;
    *flags = dev->primary ? dev->primary->flags : 0;
    return 0;
}

static int push(struct fk_context *ctx)
{
    if (depth == DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = fk_current;
    fk_current = ctx;
    return 0;
}

static int create(CUcontext *context, unsigned flags, CUdevice device)
{
    struct fk_device *const dev = fk_device_of(device);
    struct fk_context *ctx;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!dev)
        return CUDA_ERROR_INVALID_DEVICE;
    const int rc = make(dev, flags, false, &ctx);
    if (rc != 0)
        return rc;
    *context = ctx->handle;
    return push(ctx);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    FK_ENTER(cuCtxCreate_v2);
    return create(context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned flags, CUdevice device)
{
    FK_ENTER(cuCtxCreate_v4);
    if (params && (params->execAffinityParams || params->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return create(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    FK_ENTER(cuCtxDestroy_v2);
    struct fk_context *const ctx = fk_object(context, FK_CONTEXT);
    if (!ctx || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    destroy(ctx);
    return 0;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    FK_ENTER(cuCtxPushCurrent_v2);
    struct fk_context *const ctx = fk_object(context, FK_CONTEXT);
    return ctx ? push(ctx) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    FK_ENTER(cuCtxPopCurrent_v2);
    if (!fk_current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        *context = fk_current->handle;
    fk_current = depth > 0 ? stack[--depth] : NULL;
    return 0;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    FK_ENTER(cuCtxSetCurrent);
    struct fk_context *const ctx = context ? fk_object(context, FK_CONTEXT) : NULL;
    if (context && !ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    fk_current = ctx;
    return 0;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    FK_ENTER(cuCtxGetCurrent);
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = fk_current ? fk_current->handle : NULL;
    return 0;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    FK_ENTER(cuCtxGetDevice);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_current)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = fk_current->device->ordinal;
    return 0;
}

CUresult cuCtxGetFlags(unsigned *flags)
{
    FK_ENTER_CONTEXT(cuCtxGetFlags);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ctx->flags;
    return 0;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    FK_ENTER(cuCtxGetApiVersion);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    if (context ? !fk_object(context, FK_CONTEXT) : !fk_current)
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020; /* what contexts of cuCtxCreate_v2 say */
    return 0;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    FK_ENTER(cuCtxGetId);
    const struct fk_context *const ctx = context ? fk_object(context, FK_CONTEXT) : fk_current;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ctx)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = (unsigned long long)((struct fk_slot *)ctx->handle - fk_slots);
    return 0;
}

CUresult cuCtxSynchronize(void)
{
    FK_ENTER_CONTEXT(cuCtxSynchronize);
    const int rc = fk_context_wait(ctx);
    fk_pool_sync(ctx->device);
    return rc;
}

CUresult cuCtxGetLimit(size_t *value, int limit)
{
    FK_ENTER_CONTEXT(cuCtxGetLimit);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit < 0 || limit > 6)
        return CUDA_ERROR_INVALID_VALUE;
    *value = ctx->limits[limit];
    return 0;
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
    FK_ENTER_CONTEXT(cuCtxSetLimit);
    if (limit < 0 || limit > 6)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->limits[limit] = value;
    return 0;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    FK_ENTER_CONTEXT(cuCtxGetStreamPriorityRange);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5; /* compute capability 9.0 */
    return 0;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    FK_ENTER_CONTEXT(cuCtxEnablePeerAccess);
    const struct fk_context *const other = fk_object(peer, FK_CONTEXT);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!other || other == ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!fk_reach(ctx->device->ordinal, other->device->ordinal))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    const uint32_t bit = 1u << other->device->ordinal;
    if (ctx->peers & bit)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    ctx->peers |= bit;
    return 0;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    FK_ENTER_CONTEXT(cuCtxDisablePeerAccess);
    const struct fk_context *const other = fk_object(peer, FK_CONTEXT);
    if (!other)
        return CUDA_ERROR_INVALID_CONTEXT;
    const uint32_t bit = 1u << other->device->ordinal;
    if (!(ctx->peers & bit))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    ctx->peers &= ~bit;
    return 0;
}
