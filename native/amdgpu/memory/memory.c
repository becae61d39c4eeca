/* Memory of the AMD device: a BO, its GPU address, and its mapping for the CPU. Small freed memory
 * goes to a pool for later requests. */
#include "memory.h"
#include "core/base.h"
#include "placement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One page between two memories stays unmapped, so that a write past the end of one memory hits no
 * other. */
enum { GUARD = SP_PAGE };
static const uint64_t MOST = UINT64_C(1) << 46, POOLED_NBYTES = 1 << 20, FRAGMENT = 2 << 20;

static uint64_t pages(uint64_t nbytes)
{
    return (nbytes + SP_PAGE - 1) & ~(uint64_t)(SP_PAGE - 1);
}

size_t sp_memory_above(const struct sp_amdgpu *dev, uint64_t address)
{
    size_t low = 0, high = dev->nmemories;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (dev->memories[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Counts memory that submissions must name in their BO lists, and invalidates all such lists. The
 * caller holds the device's lock. */
static void note_listed(struct sp_amdgpu *dev, const struct sp_amdgpu_memory *m, int change)
{
    if (m->listed == SP_LISTED_BY_JOB)
        return;
    dev->nlisted += (size_t)(ptrdiff_t)change;
    atomic_fetch_add(&dev->list_turn, 1);
}

/* Sets whether other writers may change the memory at any time (`exposed`). When memory stops being
 * exposed, this counts a write, because other writers may have written until now. The caller holds
 * the device's lock. */
static void expose(struct sp_amdgpu *dev, struct sp_amdgpu_memory *m, uint32_t exposed)
{
    if (m->exposed && !exposed) {
        sp_amdgpu_wrote(dev);
        atomic_fetch_sub(&dev->exposed, 1);
    } else if (!m->exposed && exposed) {
        atomic_fetch_add(&dev->exposed, 1);
    }
    m->exposed = exposed;
}

/* Enters memory in the device's sorted array. The caller holds the device's lock. */
static int list(struct sp_amdgpu *dev, struct sp_amdgpu_memory *m)
{
    if (dev->nmemories == dev->most_memories) {
        size_t most = dev->most_memories ? 2 * dev->most_memories : 64;
        struct sp_amdgpu_memory **more = realloc(dev->memories, most * sizeof(*more));
        if (!more)
            return -ENOMEM;
        dev->memories = more;
        dev->most_memories = most;
    }
    size_t at = sp_memory_above(dev, m->base);
    memmove(dev->memories + at + 1, dev->memories + at, (dev->nmemories - at) * sizeof(*dev->memories));
    dev->memories[at] = m;
    dev->nmemories++;
    note_listed(dev, m, 1);
    return 0;
}

/* Removes memory from the device's sorted array. The caller holds the device's lock. */
static void unlist(struct sp_amdgpu *dev, const struct sp_amdgpu_memory *m)
{
    size_t at = sp_memory_above(dev, m->base);
    if (at == 0 || dev->memories[at - 1] != m)
        return;
    dev->nmemories--;
    note_listed(dev, m, -1);
    memmove(dev->memories + at - 1, dev->memories + at, (dev->nmemories - at + 1) * sizeof(*dev->memories));
}

static void *host_of(const struct sp_amdgpu_memory *m)
{
    if (m->host)
        return m->host;
    return m->bo->mapping ? (char *)m->bo->mapping + (m->va - m->base) : NULL;
}

struct sp_amdgpu_memory *sp_amdgpu_find(struct sp_amdgpu *dev, uint64_t address, uint64_t nbytes, void **host)
{
    pthread_mutex_lock(&dev->lock);
    size_t at = sp_memory_above(dev, address);
    struct sp_amdgpu_memory *m = at ? dev->memories[at - 1] : NULL;
    if (m && (address - m->base > m->nbytes || nbytes > m->nbytes - (address - m->base)))
        m = NULL;
    pthread_mutex_unlock(&dev->lock);
    if (m && m->cpu && !m->host && !m->bo->mapping)
        sp_bo_map(dev, m->bo);
    char *base = m && m->cpu ? host_of(m) : NULL;
    *host = base ? base + (int64_t)(address - m->va) : NULL;
    return m;
}

void sp_amdgpu_list_by_job(struct sp_amdgpu_memory *m)
{
    pthread_mutex_lock(&m->dev->lock);
    note_listed(m->dev, m, -1);
    m->listed = SP_LISTED_BY_JOB;
    expose(m->dev, m, 0);
    pthread_mutex_unlock(&m->dev->lock);
}

/* Maps a BO for the GPU and enters the memory in the device's sorted array. On failure, drops the
 * reference to the BO. */
static int map_in(struct sp_amdgpu *dev, struct sp_amdgpu_memory given, uint32_t rights, struct sp_amdgpu_memory **out)
{
    struct sp_amdgpu_memory *m = malloc(sizeof *m);
    if (!m) {
        sp_bo_drop(dev, given.bo);
        return -ENOMEM;
    }
    *m = given;
    m->dev = dev;
    atomic_store(&m->refs, 1);
    pthread_mutex_lock(&dev->lock);
    int rc = sp_va_take(dev->va, m->nbytes + GUARD, m->nbytes >= FRAGMENT ? FRAGMENT : SP_PAGE, &m->base);
    pthread_mutex_unlock(&dev->lock);
    if (rc)
        goto no_va;
    m->va = m->base + (m->host ? (uintptr_t)m->host % SP_PAGE : 0);
    rc = sp_bo_va(dev, m->bo, AMDGPU_VA_OP_MAP, m->base, m->nbytes, rights);
    if (rc < 0)
        goto not_mapped;
    pthread_mutex_lock(&dev->lock);
    rc = list(dev, m);
    if (rc == 0 && given.exposed) {
        m->exposed = 0;
        expose(dev, m, 1);
    }
    pthread_mutex_unlock(&dev->lock);
    if (rc)
        goto not_listed;
    /* L2 may hold stale bytes of these pages: the pages belonged to other memory before, and the
     * CPU may have cleared them. */
    sp_amdgpu_wrote(dev);
    sp_amdgpu_ref(dev);
    sp_amdgpu_use(dev);
    atomic_fetch_add(&sp_live()->allocations, 1);
    atomic_fetch_add(&sp_live()->allocated_nbytes, (int64_t)m->nbytes);
    *out = m;
    return 0;
not_listed:
    sp_bo_va(dev, m->bo, AMDGPU_VA_OP_UNMAP, m->base, m->nbytes, 0);
not_mapped:
    pthread_mutex_lock(&dev->lock);
    sp_va_give(dev->va, m->base, m->nbytes + GUARD);
    pthread_mutex_unlock(&dev->lock);
no_va:
    sp_bo_drop(dev, m->bo);
    free(m);
    return rc;
}

/* Takes memory of exactly `nbytes` from the pool and fills it with zeros. Returns NULL if the pool
 * has none. */
static struct sp_amdgpu_memory *from_pool(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind)
{
    struct sp_amdgpu_memory *m = NULL;
    pthread_mutex_lock(&dev->lock);
    for (uint32_t i = dev->npool; i-- > 0 && !m;)
        if (dev->pool[i]->nbytes == nbytes && dev->pool[i]->kind == kind) {
            m = dev->pool[i];
            dev->pool[i] = dev->pool[--dev->npool];
        }
    if (m && list(dev, m)) {
        dev->pool[dev->npool++] = m;
        m = NULL;
    }
    pthread_mutex_unlock(&dev->lock);
    if (!m)
        return NULL;
    memset(m->bo->mapping, 0, m->bo->nbytes);
    sp_amdgpu_wrote(dev);
    atomic_store(&m->refs, 1);
    sp_amdgpu_ref(dev);
    sp_amdgpu_use(dev);
    atomic_fetch_add(&sp_live()->allocations, 1);
    atomic_fetch_add(&sp_live()->allocated_nbytes, (int64_t)m->nbytes);
    return m;
}

int sp_amdgpu_alloc(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind, struct sp_amdgpu_memory **out)
{
    if (kind > SP_AMDGPU_WORDS)
        return -EINVAL;
    if (nbytes > MOST)
        return -ENOMEM;
    if (!sp_device_usable(&dev->common))
        return -ECHILD;
    if (atomic_load(&dev->common.lost))
        return -ENODEV;
    nbytes = pages(nbytes ? nbytes : 1);
    if ((kind == SP_AMDGPU_DEVICE || kind == SP_AMDGPU_HOST) && (*out = from_pool(dev, nbytes, kind)))
        return 0;
    const int written = kind != SP_AMDGPU_CODE && kind != SP_AMDGPU_IBS && kind != SP_AMDGPU_ARGS;
    const int run = kind == SP_AMDGPU_CODE || kind == SP_AMDGPU_CODE_AND_DATA || kind == SP_AMDGPU_IBS;
    const int uncached = kind == SP_AMDGPU_IBS || kind == SP_AMDGPU_WORDS;
    const uint32_t rights = AMDGPU_VM_PAGE_READABLE | (written ? AMDGPU_VM_PAGE_WRITEABLE : 0) |
                            (run ? AMDGPU_VM_PAGE_EXECUTABLE : 0) | (uncached ? AMDGPU_VM_MTYPE_UC : 0);
    uint32_t listed = kind == SP_AMDGPU_SHARED ? SP_LISTED_TOUCHED : dev->always_valid ? SP_LISTED_BY_JOB : SP_LISTED_ALWAYS;
    uint64_t flags = listed == SP_LISTED_BY_JOB ? AMDGPU_GEM_CREATE_VM_ALWAYS_VALID : 0;
    struct sp_placement at;
    int rc = sp_bo_place(dev, nbytes, kind, flags, &at);
    if (rc == -ENOMEM) { /* memory in the pool may occupy the room that is missing */
        sp_amdgpu_pool_empty(dev);
        rc = sp_bo_place(dev, nbytes, kind, flags, &at);
    }
    if (rc)
        return rc;
    struct sp_amdgpu_memory m = {.kind = kind, .nbytes = nbytes, .bo = at.bo, .listed = listed, .domain = at.domain,
                                 .cpu = at.cpu, .displaced = at.displaced};
    /* Enter the BO in the device's list, because an import of the exported BO returns the same
     * handle. */
    if (kind == SP_AMDGPU_SHARED) {
        pthread_mutex_lock(&dev->lock);
        m.bo->next = dev->bos;
        dev->bos = m.bo;
        pthread_mutex_unlock(&dev->lock);
    }
    return map_in(dev, m, rights, out);
}

int sp_amdgpu_wrap(struct sp_amdgpu *dev, void *pointer, uint64_t nbytes, int readonly, struct sp_amdgpu_memory **out)
{
    uint64_t first = (uintptr_t)pointer & ~(uint64_t)(SP_PAGE - 1);
    uint64_t end = pages((uintptr_t)pointer + nbytes);
    if (nbytes == 0 || nbytes > MOST)
        return -EINVAL;
    struct drm_amdgpu_gem_userptr args = {.addr = first, .size = end - first};
    args.flags = AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER;
    if (readonly)
        args.flags |= AMDGPU_GEM_USERPTR_READONLY;
    int rc = sp_amdgpu_ioctl(dev, DRM_IOCTL_AMDGPU_GEM_USERPTR, &args);
    if (rc < 0)
        return rc;
    struct sp_amdgpu_memory m = {.kind = SP_AMDGPU_HOST, .domain = AMDGPU_GEM_DOMAIN_GTT, .nbytes = end - first, .listed = SP_LISTED_TOUCHED, .cpu = 1, .exposed = 1, .host = pointer};
    rc = sp_bo_adopt(dev, args.handle, end - first, &m.bo);
    uint32_t rights = AMDGPU_VM_PAGE_READABLE | (readonly ? 0 : AMDGPU_VM_PAGE_WRITEABLE);
    return rc ? rc : map_in(dev, m, rights, out);
}

int sp_amdgpu_import(struct sp_amdgpu *dev, int fd, uint64_t nbytes, struct sp_amdgpu_memory **out)
{
    struct drm_prime_handle args = {.fd = fd};
    off_t size = lseek(fd, 0, SEEK_END); /* lseek to the end returns the size of a dma-buf */
    if (size < 0 || (uint64_t)size < nbytes || nbytes == 0)
        return size < 0 ? -errno : -EINVAL;
    int rc = sp_amdgpu_ioctl(dev, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);
    if (rc < 0)
        return rc;
    struct sp_amdgpu_memory m = {.kind = SP_AMDGPU_SHARED, .domain = AMDGPU_GEM_DOMAIN_GTT,
                                 .nbytes = pages((uint64_t)size), .listed = SP_LISTED_TOUCHED, .cpu = 1, .exposed = 1};
    rc = sp_bo_adopt(dev, args.handle, m.nbytes, &m.bo);
    if (rc)
        return rc;
    /* The CPU can map an imported BO only through its dma-buf, so the BO keeps a copy of the
     * descriptor `fd`. */
    if (m.bo->refs == 1 && m.bo->dmabuf < 0 && (m.bo->dmabuf = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        rc = -errno;
        sp_bo_drop(dev, m.bo);
        return rc;
    }
    return map_in(dev, m, AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE, out);
}

int sp_amdgpu_export(struct sp_amdgpu_memory *m)
{
    if (m->kind != SP_AMDGPU_SHARED)
        return -EPERM;
    struct drm_prime_handle args = {.handle = m->bo->handle, .flags = DRM_CLOEXEC | DRM_RDWR};
    int rc = sp_amdgpu_ioctl(m->dev, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&m->dev->lock);
    expose(m->dev, m, 1);
    pthread_mutex_unlock(&m->dev->lock);
    return args.fd;
}

uint64_t sp_amdgpu_address(const struct sp_amdgpu_memory *m)
{
    return m->va;
}

int sp_amdgpu_displaced(const struct sp_amdgpu_memory *m)
{
    return (int)m->displaced;
}

int sp_amdgpu_map(struct sp_amdgpu_memory *m, void **out)
{
    if (!m->cpu)
        return -EOPNOTSUPP;
    int rc = m->host ? 0 : sp_bo_map(m->dev, m->bo);
    if (rc == 0)
        *out = host_of(m);
    return rc;
}

int sp_amdgpu_view(struct sp_amdgpu_memory *m, void **out)
{
    int rc = sp_amdgpu_map(m, out);
    if (rc)
        return rc;
    sp_amdgpu_hold(m);
    atomic_fetch_add(&m->dev->exposed, 1);
    return 0;
}

void sp_amdgpu_unview(struct sp_amdgpu_memory *m)
{
    if (!sp_device_usable(&m->dev->common))
        return;
    /* Advance `written` before `exposed` is decremented. So a thread that reads 0 from `exposed`
     * then also reads the new `written`. */
    sp_amdgpu_wrote(m->dev);
    atomic_fetch_sub(&m->dev->exposed, 1);
    sp_amdgpu_free(m);
}

void sp_amdgpu_hold(struct sp_amdgpu_memory *m)
{
    atomic_fetch_add(&m->refs, 1);
}

static void dispose(struct sp_amdgpu *dev, struct sp_amdgpu_memory *m)
{
    int rc = sp_bo_va(dev, m->bo, AMDGPU_VA_OP_UNMAP, m->base, m->nbytes, 0);
    pthread_mutex_lock(&dev->lock);
    /* never reuse the address range after a failed unmap: it may still be mapped */
    if (rc >= 0)
        sp_va_give(dev->va, m->base, m->nbytes + GUARD);
    pthread_mutex_unlock(&dev->lock);
    sp_bo_drop(dev, m->bo);
    free(m);
}

void sp_amdgpu_free(struct sp_amdgpu_memory *m)
{
    if (!m || !sp_device_usable(&m->dev->common) || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    struct sp_amdgpu *dev = m->dev;
    atomic_fetch_sub(&sp_live()->allocations, 1);
    atomic_fetch_sub(&sp_live()->allocated_nbytes, (int64_t)m->nbytes);
    pthread_mutex_lock(&dev->lock);
    unlist(dev, m);
    expose(dev, m, 0);
    int keep = !m->host && m->bo->mapping && m->kind <= SP_AMDGPU_HOST && !m->displaced && m->nbytes <= POOLED_NBYTES &&
               dev->npool < SP_POOLED && !dev->closing && !atomic_load(&dev->common.lost);
    if (keep)
        dev->pool[dev->npool++] = m;
    pthread_mutex_unlock(&dev->lock);
    if (!keep)
        dispose(dev, m);
    sp_amdgpu_unuse(dev);
    sp_amdgpu_unref(dev);
}

void sp_amdgpu_pool_empty(struct sp_amdgpu *dev)
{
    pthread_mutex_lock(&dev->lock);
    while (dev->npool) {
        struct sp_amdgpu_memory *m = dev->pool[--dev->npool];
        pthread_mutex_unlock(&dev->lock);
        dispose(dev, m);
        pthread_mutex_lock(&dev->lock);
    }
    pthread_mutex_unlock(&dev->lock);
}
