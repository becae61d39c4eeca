/* Memory of the cuda device: the GPU's own, page-locked host memory, mapped shared files, and
 * memory of other owners. */
#define _GNU_SOURCE
#include "memory.h"
#include "core/syscalls.h"
#include "cuda/device/context.h"
#include "cuda/device/lost.h"
#include "cuda/device/open.h"
#include "cuda/device/pinned.h"
#include "cuda/device/pool.h"
#include "ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sp_cuda_memory *new_memory(struct sp_cuda *dev, uint32_t kind, uint64_t nbytes)
{
    struct sp_cuda_memory *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->dev = dev;
    m->kind = kind;
    m->nbytes = nbytes;
    m->fd = -1;
    atomic_store(&m->refs, 1);
    sp_cuda_ref(dev);
    atomic_fetch_add(&sp_live()->allocations, 1);
    atomic_fetch_add(&sp_live()->allocated_nbytes, (int64_t)nbytes);
    return m;
}

static void list_host(struct sp_cuda_memory *m)
{
    struct sp_cuda *dev = m->dev;
    pthread_mutex_lock(&dev->lock);
    m->next = dev->hosts;
    m->link = &dev->hosts;
    if (m->next)
        m->next->link = &m->next;
    dev->hosts = m;
    pthread_mutex_unlock(&dev->lock);
}

void *sp_cuda_reach(struct sp_cuda *dev, uint64_t address, uint64_t nbytes)
{
    void *host = NULL;
    pthread_mutex_lock(&dev->lock);
    for (const struct sp_cuda_memory *m = dev->hosts; m && !host; m = m->next)
        if (address >= m->address && address - m->address <= m->nbytes && nbytes <= m->nbytes - (address - m->address))
            host = (char *)m->host + (address - m->address);
    pthread_mutex_unlock(&dev->lock);
    return host;
}

/* Zeroes new memory on the device's memory stream. The stream of each queue waits for that before
 * later work (sp_cuda_order_memory). */
static int zero_in_order(struct sp_cuda *dev, uint64_t address, uint64_t nbytes)
{
    pthread_mutex_lock(&dev->lock);
    int rc = SP_CUDA_RC(dev, cuMemsetD8Async, address, 0, nbytes, dev->memory_stream);
    if (rc == 0)
        rc = SP_CUDA_RC(dev, cuEventRecord, dev->memory_event, dev->memory_stream);
    if (rc == 0)
        atomic_fetch_add(&dev->memory_turn, 1);
    pthread_mutex_unlock(&dev->lock);
    return rc;
}

static int take(struct sp_cuda *dev, uint64_t nbytes, uint64_t *address)
{
    return dev->pool ? SP_CUDA_RC(dev, cuMemAllocAsync, address, nbytes, dev->memory_stream)
                     : SP_CUDA_RC(dev, cuMemAlloc_v2, address, nbytes);
}

static int alloc_device(struct sp_cuda *dev, struct sp_cuda_memory *m)
{
    int rc = take(dev, m->nbytes, &m->address);
    if (rc == -ENOMEM && dev->pool) {
        sp_cuda_empty_pool(dev);
        rc = take(dev, m->nbytes, &m->address);
    }
    if (rc)
        return rc;
    m->flags = dev->pool ? SP_CUDA_POOLED : 0;
    return zero_in_order(dev, m->address, m->nbytes);
}

/* Allocates memory in blocks that no other allocation shares, so that it can be exported: see
 * ipc.c. */
static int alloc_alone(struct sp_cuda *dev, struct sp_cuda_memory *m)
{
    static const uint64_t BLOCK = 2 << 20;
    int rc = SP_CUDA_RC(dev, cuMemAlloc_v2, &m->address, (m->nbytes + BLOCK - 1) / BLOCK * BLOCK);
    if (rc == -ENOMEM && dev->pool) {
        sp_cuda_empty_pool(dev);
        rc = SP_CUDA_RC(dev, cuMemAlloc_v2, &m->address, (m->nbytes + BLOCK - 1) / BLOCK * BLOCK);
    }
    return rc ? rc : zero_in_order(dev, m->address, m->nbytes);
}

static int alloc_host(struct sp_cuda *dev, struct sp_cuda_memory *m, uint64_t nbytes)
{
    int rc = sp_cuda_pinned_take(dev, nbytes, &m->host, &m->pinned_nbytes);
    if (rc)
        return rc;
    memset(m->host, 0, nbytes);
    rc = SP_CUDA_RC(m->dev, cuMemHostGetDevicePointer_v2, &m->address, m->host, 0);
    if (rc == 0)
        list_host(m);
    return rc;
}

/* Registers existing host memory, so that the GPU can access it. */
static int register_host(struct sp_cuda_memory *m, unsigned flags)
{
    int rc = SP_CUDA_RC(m->dev, cuMemHostRegister_v2, m->host, m->nbytes, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP | flags);
    if (rc)
        return rc;
    m->flags |= SP_CUDA_REGISTERED;
    rc = SP_CUDA_RC(m->dev, cuMemHostGetDevicePointer_v2, &m->address, m->host, 0);
    if (rc == 0)
        list_host(m);
    return rc;
}

/* Maps a file and registers the mapping. Takes ownership of `fd`. */
static int map_file(struct sp_cuda_memory *m, int fd)
{
    m->fd = fd;
    void *host = mmap(NULL, m->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (host == MAP_FAILED)
        return -errno;
    m->host = host;
    return register_host(m, 0);
}

static int alloc_shared(struct sp_cuda_memory *m)
{
    int fd = sp_memfd_create("sparkle-shared", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)m->nbytes)) {
        int rc = errno == EFBIG || errno == EINVAL ? -ENOMEM : -errno;
        close(fd);
        return rc;
    }
    return map_file(m, fd);
}

/* Ends a function that could not make a struct sp_cuda_memory: calls sp_cuda_leave, and returns the
 * error `rc`, or -ENOMEM if `rc` is 0. */
static int none(int rc)
{
    sp_cuda_leave();
    return rc ? rc : -ENOMEM;
}

/* Ends the creation of memory: stores it in `out`, or frees it if `rc` is an error. */
static int finish(struct sp_cuda_memory *m, int rc, struct sp_cuda_memory **out)
{
    if (rc)
        sp_cuda_free(m);
    else
        *out = m;
    sp_cuda_leave();
    return rc;
}

int sp_cuda_alloc(struct sp_cuda *dev, uint64_t nbytes, uint32_t kind, struct sp_cuda_memory **out)
{
    if (!sp_cuda_usable(dev))
        return -ECHILD;
    if (kind > SP_CUDA_ALONE)
        return -EINVAL;
    if (nbytes > INT64_MAX)
        return -ENOMEM;
    int rc = sp_cuda_gone(dev);
    if (rc == 0)
        rc = sp_cuda_enter(dev);
    struct sp_cuda_memory *m = rc ? NULL : new_memory(dev, kind, nbytes ? nbytes : 1);
    if (!m)
        return none(rc);
    if (kind == SP_CUDA_DEVICE)
        rc = alloc_device(dev, m);
    else if (kind == SP_CUDA_ALONE)
        rc = dev->info.features & SP_CUDA_IPC ? alloc_alone(dev, m) : -EOPNOTSUPP;
    else
        rc = kind == SP_CUDA_HOST ? alloc_host(dev, m, m->nbytes) : alloc_shared(m);
    return finish(m, rc, out);
}

/* Maps memory of this GPU that another process has exported. */
static int import_device(struct sp_cuda *dev, int fd, uint64_t nbytes, struct sp_cuda_memory **out)
{
    int rc = nbytes ? sp_cuda_gone(dev) : -EINVAL;
    if (rc == 0)
        rc = sp_cuda_enter(dev);
    struct sp_cuda_memory *m = rc ? NULL : new_memory(dev, SP_CUDA_DEVICE, nbytes);
    if (!m)
        return none(rc);
    m->flags = SP_CUDA_IMPORTED;
    return finish(m, sp_cuda_ipc_open(dev, fd, nbytes, &m->address), out);
}

int sp_cuda_import(struct sp_cuda *dev, int fd, uint64_t nbytes, struct sp_cuda_memory **out)
{
    struct stat st;
    if (!sp_cuda_usable(dev))
        return -ECHILD;
    if (fstat(fd, &st))
        return -errno;
    if (sp_cuda_ipc_is(fd))
        return import_device(dev, fd, nbytes, out);
    if (nbytes == 0 || (uint64_t)st.st_size < nbytes)
        return -EINVAL;
    int rc = sp_cuda_gone(dev), own = rc ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (rc == 0)
        rc = own < 0 ? -errno : sp_cuda_enter(dev);
    struct sp_cuda_memory *m = rc ? NULL : new_memory(dev, SP_CUDA_SHARED, nbytes);
    if (!m) {
        if (own >= 0)
            close(own);
        return none(rc);
    }
    return finish(m, map_file(m, own), out);
}

int sp_cuda_wrap(struct sp_cuda *dev, void *host, uint64_t nbytes, int readonly, struct sp_cuda_memory **out)
{
    if (!sp_cuda_usable(dev))
        return -ECHILD;
    int rc = nbytes ? sp_cuda_gone(dev) : -EINVAL;
    if (rc == 0)
        rc = sp_cuda_enter(dev);
    struct sp_cuda_memory *m = rc ? NULL : new_memory(dev, SP_CUDA_HOST, nbytes);
    if (!m)
        return none(rc);
    m->host = host;
    rc = register_host(m, readonly ? CU_HOST_READ_ONLY : 0);
    if (rc && !(m->flags & SP_CUDA_REGISTERED))
        m->flags = SP_CUDA_ADOPTED; /* we must neither free nor unregister this memory */
    return finish(m, rc, out);
}

int sp_cuda_adopt(struct sp_cuda *dev, uint64_t address, uint64_t nbytes, struct sp_cuda_memory **out)
{
    if (!sp_cuda_usable(dev))
        return -ECHILD;
    struct sp_cuda_memory *m = new_memory(dev, SP_CUDA_DEVICE, nbytes);
    if (!m)
        return -ENOMEM;
    m->flags = SP_CUDA_ADOPTED;
    m->address = address;
    *out = m;
    return 0;
}

uint64_t sp_cuda_address(const struct sp_cuda_memory *m)
{
    return m->address;
}

void *sp_cuda_host(const struct sp_cuda_memory *m)
{
    return m->host;
}

/* Makes the file that exports memory of kind SP_CUDA_ALONE, at the first export. */
static int make_file(struct sp_cuda_memory *m)
{
    int fd = sp_cuda_ipc_export(m->dev, m->address, m->nbytes);
    sp_cuda_leave();
    if (fd < 0)
        return fd;
    pthread_mutex_lock(&m->dev->lock);
    if (m->fd < 0)
        m->fd = fd;
    else
        close(fd);
    pthread_mutex_unlock(&m->dev->lock);
    return 0;
}

int sp_cuda_export(struct sp_cuda_memory *m)
{
    if (!sp_cuda_usable(m->dev))
        return -ECHILD;
    int rc = m->fd >= 0 ? 0 : m->kind == SP_CUDA_ALONE ? make_file(m) : -EPERM;
    if (rc)
        return rc;
    int fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

void sp_cuda_hold(struct sp_cuda_memory *m)
{
    atomic_fetch_add(&m->refs, 1);
}

static void unlist(struct sp_cuda_memory *m)
{
    pthread_mutex_lock(&m->dev->lock);
    if (m->link)
        *m->link = m->next;
    if (m->next)
        /* `link` of a list element is the address of the pointer to that element. The pointer that
         * pointed to `m` now points to `m->next`, so its address becomes the `link` of
         * `m->next`. */
        m->next->link = m->link;
    pthread_mutex_unlock(&m->dev->lock);
}

static void give_back(struct sp_cuda_memory *m)
{
    struct sp_cuda *dev = m->dev;
    if (m->flags & SP_CUDA_ADOPTED)
        return;
    if (m->kind == SP_CUDA_ALONE)
        sp_cuda_ipc_end(m->fd);
    if (m->kind == SP_CUDA_HOST && !(m->flags & SP_CUDA_REGISTERED)) {
        sp_cuda_pinned_give(dev, m->host, m->pinned_nbytes);
    } else if (sp_cuda_enter(dev) == 0) {
        if (m->flags & SP_CUDA_REGISTERED)
            sp_cuMemHostUnregister(m->host);
        else if (m->address && m->flags & SP_CUDA_IMPORTED)
            sp_cuIpcCloseMemHandle(m->address);
        else if (m->address && m->flags & SP_CUDA_POOLED)
            sp_cuMemFreeAsync(m->address, dev->memory_stream);
        else if (m->address)
            sp_cuMemFree_v2(m->address);
    }
    if (m->kind == SP_CUDA_SHARED && m->host)
        munmap(m->host, m->nbytes);
}

void sp_cuda_free(struct sp_cuda_memory *m)
{
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    struct sp_cuda *dev = m->dev;
    if (sp_cuda_usable(dev)) {
        unlist(m);
        give_back(m);
    }
    sp_cuda_leave();
    if (m->fd >= 0)
        close(m->fd);
    atomic_fetch_sub(&sp_live()->allocations, 1);
    atomic_fetch_sub(&sp_live()->allocated_nbytes, (int64_t)m->nbytes);
    free(m);
    sp_cuda_unref(dev);
}
