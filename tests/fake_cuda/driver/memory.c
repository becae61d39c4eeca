/* "Memory Management" and "Unified Addressing": device memory, pinned and registered host memory, what a pointer is. */
#include "../include/fake.h"

CUresult cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    FK_ENTER_CONTEXT(cuMemGetInfo_v2);
    if (!unused || !total)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fk_heap_lock);
    *unused = fk_settings.memory - ctx->device->used;
    pthread_mutex_unlock(&fk_heap_lock);
    *total = fk_settings.memory;
    return 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t nbytes)
{
    uint64_t at;
    FK_ENTER_CONTEXT(cuMemAlloc_v2);
    if (!address || nbytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = fk_heap_alloc(ctx, NULL, nbytes, &at);
    if (rc == 0)
        *address = at;
    return rc;
}

/* Waits for all work of the device, as the reference says that it may and drivers do. */
CUresult cuMemFree_v2(CUdeviceptr address)
{
    struct fk_block block;
    FK_ENTER_CONTEXT(cuMemFree_v2);
    if (address == 0)
        return 0;
    if (!fk_heap_find(address, &block) || block.address != address || block.where != FK_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = fk_context_wait(block.ctx ? block.ctx : ctx);
    return rc ? rc : fk_heap_free(address, FK_DEVICE);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *nbytes, CUdeviceptr address)
{
    struct fk_block block;
    FK_ENTER_CONTEXT(cuMemGetAddressRange_v2);
    (void)ctx;
    if (!fk_heap_find(address, &block))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = block.address;
    if (nbytes)
        *nbytes = block.nbytes;
    return 0;
}

static int host_alloc(struct fk_context *ctx, void **out, size_t nbytes, unsigned flags)
{
    if (!out || nbytes == 0 || flags > 7) /* PORTABLE, DEVICEMAP, WRITECOMBINED */
        return CUDA_ERROR_INVALID_VALUE;
    return fk_heap_host(ctx, nbytes, flags, out);
}

CUresult cuMemAllocHost_v2(void **out, size_t nbytes)
{
    FK_ENTER_CONTEXT(cuMemAllocHost_v2);
    return host_alloc(ctx, out, nbytes, 0);
}

CUresult cuMemHostAlloc(void **out, size_t nbytes, unsigned flags)
{
    FK_ENTER_CONTEXT(cuMemHostAlloc);
    return host_alloc(ctx, out, nbytes, flags);
}

CUresult cuMemFreeHost(void *at)
{
    FK_ENTER_CONTEXT(cuMemFreeHost);
    const int rc = fk_context_wait(ctx);
    return rc ? rc : fk_heap_free((uint64_t)(uintptr_t)at, FK_PINNED);
}

CUresult cuMemHostRegister_v2(void *at, size_t nbytes, unsigned flags)
{
    FK_ENTER_CONTEXT(cuMemHostRegister_v2);
    if (!at || nbytes == 0 || flags > 15) /* PORTABLE, DEVICEMAP, IOMEMORY, READ_ONLY */
        return CUDA_ERROR_INVALID_VALUE;
    return fk_heap_register(ctx, at, nbytes, flags);
}

CUresult cuMemHostUnregister(void *at)
{
    FK_ENTER_CONTEXT(cuMemHostUnregister);
    const int rc = fk_context_wait(ctx);
    if (rc != 0)
        return rc;
    return fk_heap_free((uint64_t)(uintptr_t)at, FK_REGISTERED) ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : 0;
}

static bool find_host(const void *at, struct fk_block *out)
{
    return fk_heap_find((uint64_t)(uintptr_t)at, out) && (out->where == FK_PINNED || out->where == FK_REGISTERED);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *at, unsigned flags)
{
    struct fk_block block;
    FK_ENTER_CONTEXT(cuMemHostGetDevicePointer_v2);
    (void)ctx;
    if (!address || flags != 0 || !find_host(at, &block))
        return CUDA_ERROR_INVALID_VALUE;
    *address = (CUdeviceptr)(uintptr_t)at; /* one address space */
    return 0;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *at)
{
    struct fk_block block;
    FK_ENTER_CONTEXT(cuMemHostGetFlags);
    (void)ctx;
    if (!flags || !find_host(at, &block))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = block.flags;
    return 0;
}

/* CUpointer_attribute */
enum { CONTEXT = 1, MEMORY_TYPE = 2, DEVICE_POINTER = 3, HOST_POINTER = 4, BUFFER_ID = 7, IS_MANAGED = 8,
       DEVICE_ORDINAL = 9, IPC_CAPABLE = 10, RANGE_START = 11, RANGE_SIZE = 12, MAPPED = 13, MEMPOOL = 17 };

static int attribute_of(const struct fk_block *block, int attribute, uint64_t address, void *value)
{
    const bool host = block->where == FK_PINNED || block->where == FK_REGISTERED;
    switch (attribute) {
    case CONTEXT:
        *(CUcontext *)value = block->pool || !block->ctx ? NULL : block->ctx->handle;
        return 0;
    case MEMORY_TYPE:
        *(unsigned *)value = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return 0;
    case DEVICE_POINTER:
        *(CUdeviceptr *)value = address;
        return 0;
    case HOST_POINTER:
        *(void **)value = (void *)(uintptr_t)address;
        return host ? 0 : CUDA_ERROR_INVALID_VALUE;
    case BUFFER_ID:
        *(unsigned long long *)value = block->id;
        return 0;
    case IS_MANAGED:
        *(unsigned char *)value = 0;
        return 0;
    case DEVICE_ORDINAL:
        *(int *)value = block->ordinal;
        return 0;
    case IPC_CAPABLE:
        *(unsigned char *)value = block->where == FK_DEVICE && !block->pool;
        return 0;
    case RANGE_START:
        *(CUdeviceptr *)value = block->address;
        return 0;
    case RANGE_SIZE:
        *(size_t *)value = block->nbytes;
        return 0;
    case MAPPED:
        *(unsigned char *)value = 1;
        return 0;
    case MEMPOOL:
        *(CUmemoryPool *)value = block->pool ? block->pool->handle : NULL;
        return 0;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address)
{
    struct fk_block block;
    FK_ENTER(cuPointerGetAttribute);
    if (!value || !fk_heap_find(address, &block))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute_of(&block, attribute, address, value);
}

static size_t width_of(int attribute)
{
    switch (attribute) {
    case IS_MANAGED:
    case IPC_CAPABLE:
    case MAPPED:
        return 1;
    case MEMORY_TYPE:
    case DEVICE_ORDINAL:
        return 4;
    default:
        return 8;
    }
}

/* What the driver does not know gets zeros, the ordinal -2, and no error. */
CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr address)
{
    struct fk_block block;
    FK_ENTER(cuPointerGetAttributes);
    if (!attributes || !values || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const bool known = fk_heap_find(address, &block);
    for (unsigned i = 0; i < count; i++) {
        for (size_t b = 0; b < width_of(attributes[i]); b++)
            ((unsigned char *)values[i])[b] = 0;
        if (known)
            attribute_of(&block, attributes[i], address, values[i]);
        else if (attributes[i] == DEVICE_ORDINAL)
            *(int *)values[i] = -2;
    }
    return 0;
}
