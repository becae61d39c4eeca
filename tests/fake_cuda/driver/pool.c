/* "Stream Ordered Memory Allocator": pools. What a pool has reserved and does not use goes back to the device at the next
 * synchronisation, but for what the release threshold keeps. */
#include "../include/fake.h"

#include <stdlib.h>

/* CUmemPool_attribute */
enum { REUSE_FIRST = 1, REUSE_LAST = 3, RELEASE_THRESHOLD = 4, RESERVED = 5, RESERVED_HIGH = 6, USED = 7, USED_HIGH = 8 };

static struct fk_pool *pools[256]; /* fk_heap_lock */

struct fk_pool *fk_pool_new(struct fk_device *device, uint64_t max_size)
{
    struct fk_pool *const pool = calloc(1, sizeof *pool);
    if (!pool || !(pool->handle = fk_handle_new(FK_POOL, pool)))
        return free(pool), NULL;
    pool->device = device;
    pool->max_size = max_size;
    pool->access = 1u << device->ordinal;
    pool->flags[1] = pool->flags[2] = pool->flags[3] = 1;
    pthread_mutex_lock(&fk_heap_lock);
    size_t at = 0;
    while (at < sizeof pools / sizeof *pools && pools[at])
        at++;
    const bool room = at < sizeof pools / sizeof *pools;
    if (room)
        pools[at] = pool;
    pthread_mutex_unlock(&fk_heap_lock);
    if (room)
        return pool;
    fk_handle_free(pool->handle);
    free(pool);
    return NULL;
}

static void trim(struct fk_pool *pool, uint64_t keep)
{
    const uint64_t target = pool->used > keep ? pool->used : keep;
    if (pool->reserved > target) {
        pool->device->used -= pool->reserved - target;
        pool->reserved = target;
    }
}

void fk_pool_sync(struct fk_device *device)
{
    pthread_mutex_lock(&fk_heap_lock);
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        if (pools[i] && pools[i]->device == device)
            trim(pools[i], pools[i]->threshold);
    pthread_mutex_unlock(&fk_heap_lock);
}

static int give(CUmemoryPool *out, CUdevice device, bool current)
{
    const struct fk_device *const dev = fk_device_of(device);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!dev)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = (current ? dev->pool : dev->default_pool)->handle;
    return 0;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    FK_ENTER(cuDeviceGetDefaultMemPool);
    return give(pool, device, false);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    FK_ENTER(cuDeviceGetMemPool);
    return give(pool, device, true);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    FK_ENTER(cuDeviceSetMemPool);
    struct fk_device *const dev = fk_device_of(device);
    struct fk_pool *const p = fk_object(pool, FK_POOL);
    if (!dev || !p || p->device != dev)
        return CUDA_ERROR_INVALID_VALUE;
    dev->pool = p;
    return 0;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    FK_ENTER(cuMemPoolCreate);
    struct fk_device *const dev = props && props->location.type == 1 ? fk_device_of(props->location.id) : NULL;
    if (!pool || !dev || props->allocType != 1) /* CU_MEM_ALLOCATION_TYPE_PINNED */
        return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct fk_pool *const made = fk_pool_new(dev, props->maxSize);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pool = made->handle;
    return 0;
}

/* A pool that is still used lives on in what was allocated from it; only its handle goes. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    FK_ENTER(cuMemPoolDestroy);
    struct fk_pool *const p = fk_object(pool, FK_POOL);
    if (!p || p == p->device->default_pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->device->pool == p)
        p->device->pool = p->device->default_pool;
    fk_handle_free(p->handle);
    pthread_mutex_lock(&fk_heap_lock);
    p->threshold = 0;
    trim(p, 0);
    pthread_mutex_unlock(&fk_heap_lock);
    return 0;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    FK_ENTER(cuMemPoolTrimTo);
    struct fk_pool *const p = fk_object(pool, FK_POOL);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fk_heap_lock);
    trim(p, keep);
    pthread_mutex_unlock(&fk_heap_lock);
    return 0;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    FK_ENTER(cuMemPoolSetAttribute);
    struct fk_pool *const p = fk_object(pool, FK_POOL);
    int rc = 0;
    if (!p || !value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fk_heap_lock);
    if (attribute >= REUSE_FIRST && attribute <= REUSE_LAST)
        p->flags[attribute] = *(const unsigned *)value;
    else if (attribute == RELEASE_THRESHOLD)
        p->threshold = *(const uint64_t *)value;
    else if (attribute == RESERVED_HIGH && *(const uint64_t *)value == 0)
        p->reserved_high = p->reserved;
    else if (attribute == USED_HIGH && *(const uint64_t *)value == 0)
        p->used_high = p->used;
    else
        rc = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fk_heap_lock);
    return rc;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    FK_ENTER(cuMemPoolGetAttribute);
    const struct fk_pool *const p = fk_object(pool, FK_POOL);
    if (!p || !value || attribute < REUSE_FIRST || attribute > USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fk_heap_lock);
    const uint64_t numbers[] = {p->threshold, p->reserved, p->reserved_high, p->used, p->used_high};
    if (attribute <= REUSE_LAST)
        *(unsigned *)value = (unsigned)p->flags[attribute];
    else
        *(uint64_t *)value = numbers[attribute - RELEASE_THRESHOLD];
    pthread_mutex_unlock(&fk_heap_lock);
    return 0;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    FK_ENTER(cuMemPoolSetAccess);
    struct fk_pool *const p = fk_object(pool, FK_POOL);
    if (!p || (count && !map))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const struct fk_device *const dev = map[i].location.type == 1 ? fk_device_of(map[i].location.id) : NULL;
        if (!dev)
            return CUDA_ERROR_INVALID_VALUE;
        if (dev != p->device && !fk_reach(p->device->ordinal, dev->ordinal) && map[i].flags)
            return CUDA_ERROR_INVALID_DEVICE;
        if (map[i].flags == 3)
            p->access |= 1u << dev->ordinal;
        else if (map[i].flags == 0 && dev != p->device)
            p->access &= ~(1u << dev->ordinal);
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    return 0;
}

CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location)
{
    FK_ENTER(cuMemPoolGetAccess);
    const struct fk_pool *const p = fk_object(pool, FK_POOL);
    if (!flags || !p || !location || location->type != 1 || !fk_device_of(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = p->access >> location->id & 1 ? 3 : 0;
    return 0;
}

/* ---- allocation in the order of a stream ---- */

static int alloc(struct fk_context *ctx, struct fk_pool *pool, CUdeviceptr *address, size_t nbytes, CUstream stream)
{
    struct fk_stream *s;
    uint64_t at;
    int rc = fk_stream_of(ctx, stream, &s);
    if (rc != 0)
        return rc;
    if (!address || nbytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    rc = fk_heap_alloc(ctx, pool, nbytes, &at);
    if (rc == 0)
        *address = at;
    return rc;
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t nbytes, CUstream stream)
{
    FK_ENTER_CONTEXT(cuMemAllocAsync);
    return alloc(ctx, ctx->device->pool, address, nbytes, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t nbytes, CUmemoryPool pool, CUstream stream)
{
    FK_ENTER_CONTEXT(cuMemAllocFromPoolAsync);
    struct fk_pool *const p = fk_object(pool, FK_POOL);
    return p ? alloc(ctx, p, address, nbytes, stream) : CUDA_ERROR_INVALID_VALUE;
}

static int run_free(struct fk_stream *stream, struct fk_op *op)
{
    (void)stream;
    fk_heap_free(op->free.address, FK_DEVICE);
    return 0;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    struct fk_stream *s;
    FK_ENTER_CONTEXT(cuMemFreeAsync);
    int rc = fk_stream_of(ctx, stream, &s);
    if (rc != 0)
        return rc;
    if (s->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (address == 0)
        return 0;
    if (!fk_heap_mark_freed(address))
        return CUDA_ERROR_INVALID_VALUE;
    struct fk_op *const op = fk_begin(s, run_free, FK_NO_ENGINE, &rc);
    if (!op)
        return rc;
    op->free.address = address;
    fk_push(s, op);
    return 0;
}
