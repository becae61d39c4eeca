/* All memory that the driver knows, sorted by address. Each device has a range of addresses of its own, far from
 * everything else of the process, so that a host pointer is never taken for a device's; pinned memory has one more.
 * Addresses are not given out twice: a stale one is always recognised. Devices' memory is a memfd, which another
 * process can map (ipc.c); pages appear when touched. */
#define _GNU_SOURCE
#include "../include/fake.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* On x86-64 nothing of a process lies between 0x2000_0000_0000 and its program at 0x5555_5555_4000 and up, and
 * AddressSanitizer's shadow ends below. */
#ifndef __SANITIZE_THREAD__
static const uint64_t FIRST = 0x200000000000, SPAN = 1ull << 41;
#else /* its shadow is there; it leaves programs the 512 GiB below 0x80_0000_0000 */
static const uint64_t FIRST = 0x1000000000, SPAN = 1ull << 34;
#endif
static const uint64_t STEP = 64 << 20;
enum { PAGE = 4096, HOST = FK_MAX_DEVICES, ARENAS, POISON = 0xff, POISONED = 64 << 10 };
struct arena {
    uint64_t base, next, ready; /* never given out from `next` on; accessible below `ready` */
    int fd;
};
static struct arena arenas[ARENAS];
pthread_mutex_t fk_heap_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fk_block *blocks;
static size_t count, capacity;
static uint64_t ids;

static int reserve(struct arena *arena, int index)
{
    void *const hint = (void *)(uintptr_t)(FIRST + (uint64_t)index * SPAN);
    int flags = MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    arena->fd = -1;
    if (index == HOST)
        flags |= MAP_PRIVATE | MAP_ANONYMOUS;
    else {
        flags |= MAP_SHARED;
        arena->fd = memfd_create("fake-cuda-memory", MFD_CLOEXEC);
        if (arena->fd < 0 || ftruncate(arena->fd, (off_t)SPAN) != 0)
            return -1;
    }
    void *at = mmap(hint, SPAN, PROT_NONE, flags, arena->fd, 0);
    if (at == MAP_FAILED)
        at = mmap(NULL, SPAN, PROT_NONE, flags & ~MAP_FIXED_NOREPLACE, arena->fd, 0);
    if (at == MAP_FAILED)
        return -1;
    arena->base = arena->next = arena->ready = (uint64_t)(uintptr_t)at;
    return 0;
}

int fk_heap_init(void)
{
    for (int i = 0; i < fk_settings.devices; i++)
        if (!arenas[i].base && reserve(&arenas[i], i) != 0)
            return -1;
    return arenas[HOST].base ? 0 : reserve(&arenas[HOST], HOST);
}

/* ---- the sorted table; fk_heap_lock is held ---- */

static size_t position(uint64_t address) /* of the first block that begins above it */
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (blocks[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct fk_block *find(uint64_t address)
{
    const size_t at = position(address);
    return at > 0 && address - blocks[at - 1].address < blocks[at - 1].nbytes ? &blocks[at - 1] : NULL;
}

static int insert(const struct fk_block *block)
{
    if (count == capacity) {
        const size_t more = capacity ? 2 * capacity : 256;
        struct fk_block *const grown = realloc(blocks, more * sizeof *blocks);
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        blocks = grown;
        capacity = more;
    }
    const size_t at = position(block->address);
    memmove(&blocks[at + 1], &blocks[at], (count - at) * sizeof *blocks);
    blocks[at] = *block;
    blocks[at].id = ++ids;
    count++;
    return 0;
}

/* Addresses from an arena, accessible; their first bytes are no zeros, as nobody promised any. */
static int carve(struct arena *arena, uint64_t nbytes, uint64_t *address)
{
    const uint64_t rounded = (nbytes + PAGE - 1) / PAGE * PAGE;
    if (rounded < nbytes || rounded > arena->base + SPAN - arena->next)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (arena->next + rounded > arena->ready) {
        const uint64_t end = arena->base + SPAN;
        uint64_t ready = (arena->next + rounded - arena->base + STEP - 1) / STEP * STEP + arena->base;
        ready = ready < end ? ready : end;
        if (mprotect((void *)(uintptr_t)arena->ready, ready - arena->ready, PROT_READ | PROT_WRITE) != 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
        arena->ready = ready;
    }
    *address = arena->next;
    arena->next += rounded;
    memset((void *)(uintptr_t)*address, POISON, nbytes < POISONED ? nbytes : POISONED);
    return 0;
}

static void give_back(const struct fk_block *block)
{
    const uint64_t rounded = (block->nbytes + PAGE - 1) / PAGE * PAGE;
    if (block->where == FK_IMPORTED)
        munmap((void *)(uintptr_t)block->address, rounded);
    else if (block->where == FK_PINNED)
        madvise((void *)(uintptr_t)block->address, rounded, MADV_DONTNEED);
    else if (block->where == FK_DEVICE) {
        const struct arena *const arena = &arenas[block->ordinal];
        fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(block->address - arena->base),
                  (off_t)rounded);
        if (block->pool)
            block->pool->used -= block->nbytes; /* what it has reserved stays so: pool.c */
        else
            fk_devices[block->ordinal].used -= block->nbytes;
    }
}

static void erase(struct fk_block *block)
{
    give_back(block);
    const size_t at = (size_t)(block - blocks);
    memmove(block, block + 1, (count - at - 1) * sizeof *blocks);
    count--;
}

/* ---- making and freeing ---- */

/* A pool's memory comes out of what it has reserved, and that out of the device's. */
static int charge(struct fk_device *device, struct fk_pool *pool, uint64_t nbytes)
{
    uint64_t more = nbytes;
    if (pool) {
        if (pool->max_size && pool->used + nbytes > pool->max_size)
            return CUDA_ERROR_OUT_OF_MEMORY;
        const uint64_t spare = pool->reserved - pool->used;
        more = nbytes > spare ? nbytes - spare : 0;
    }
    if (more > fk_settings.memory || device->used > fk_settings.memory - more)
        return CUDA_ERROR_OUT_OF_MEMORY;
    device->used += more;
    if (pool) {
        pool->used += nbytes;
        pool->reserved += more;
        pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
        pool->reserved_high = pool->reserved > pool->reserved_high ? pool->reserved : pool->reserved_high;
    }
    return 0;
}

int fk_heap_alloc(struct fk_context *ctx, struct fk_pool *pool, uint64_t nbytes, uint64_t *address)
{
    struct fk_device *const device = pool ? pool->device : ctx->device;
    struct fk_block block = {.nbytes = nbytes, .where = FK_DEVICE, .ordinal = device->ordinal, .ctx = ctx,
                             .pool = pool};
    pthread_mutex_lock(&fk_heap_lock);
    int rc = charge(device, pool, nbytes);
    if (rc == 0) {
        rc = carve(&arenas[device->ordinal], nbytes, &block.address);
        if (rc == 0)
            rc = insert(&block);
        if (rc != 0 && pool)
            pool->used -= nbytes;
        else if (rc != 0)
            device->used -= nbytes;
    }
    pthread_mutex_unlock(&fk_heap_lock);
    *address = block.address;
    return rc;
}

int fk_heap_host(struct fk_context *ctx, uint64_t nbytes, unsigned flags, void **out)
{
    struct fk_block block = {.nbytes = nbytes, .where = FK_PINNED, .ordinal = ctx->device->ordinal, .ctx = ctx,
                             .flags = flags};
    pthread_mutex_lock(&fk_heap_lock);
    int rc = carve(&arenas[HOST], nbytes, &block.address);
    if (rc == 0)
        rc = insert(&block);
    pthread_mutex_unlock(&fk_heap_lock);
    *out = (void *)(uintptr_t)block.address;
    return rc;
}

int fk_heap_register(struct fk_context *ctx, void *at, uint64_t nbytes, unsigned flags)
{
    const struct fk_block block = {.address = (uint64_t)(uintptr_t)at, .nbytes = nbytes, .where = FK_REGISTERED,
                                   .ordinal = ctx->device->ordinal, .ctx = ctx, .flags = flags};
    int rc = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    pthread_mutex_lock(&fk_heap_lock);
    const size_t above = position(block.address);
    if (!find(block.address) && (above == count || blocks[above].address >= block.address + nbytes))
        rc = insert(&block);
    pthread_mutex_unlock(&fk_heap_lock);
    return rc;
}

int fk_heap_import(struct fk_context *ctx, int fd, uint64_t offset, uint64_t nbytes, uint64_t *address)
{
    const uint64_t rounded = (nbytes + PAGE - 1) / PAGE * PAGE;
    void *const at = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)offset);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct fk_block block = {.address = (uint64_t)(uintptr_t)at, .nbytes = nbytes, .where = FK_IMPORTED,
                                   .ordinal = ctx->device->ordinal, .ctx = ctx};
    pthread_mutex_lock(&fk_heap_lock);
    const int rc = insert(&block);
    pthread_mutex_unlock(&fk_heap_lock);
    *address = block.address;
    return rc;
}

int fk_heap_export(uint64_t address, int *fd, uint64_t *offset)
{
    struct fk_block block;
    if (!fk_heap_find(address, &block) || block.where != FK_DEVICE || block.pool)
        return CUDA_ERROR_INVALID_VALUE;
    *fd = arenas[block.ordinal].fd;
    *offset = block.address - arenas[block.ordinal].base;
    return 0;
}

int fk_heap_free(uint64_t address, enum fk_where where)
{
    pthread_mutex_lock(&fk_heap_lock);
    struct fk_block *const block = find(address);
    const bool found = block && block->address == address && block->where == where;
    if (found)
        erase(block);
    pthread_mutex_unlock(&fk_heap_lock);
    return found ? 0 : CUDA_ERROR_INVALID_VALUE;
}

void fk_heap_free_context(struct fk_context *ctx)
{
    pthread_mutex_lock(&fk_heap_lock);
    for (size_t i = count; i-- > 0;)
        if (blocks[i].ctx == ctx)
            erase(&blocks[i]);
    pthread_mutex_unlock(&fk_heap_lock);
}

bool fk_heap_mark_freed(uint64_t address)
{
    pthread_mutex_lock(&fk_heap_lock);
    struct fk_block *const block = find(address);
    const bool found = block && block->address == address && block->where == FK_DEVICE && !block->freed;
    if (found)
        block->freed = true;
    pthread_mutex_unlock(&fk_heap_lock);
    return found;
}

/* ---- looking up ---- */

bool fk_heap_find(uint64_t address, struct fk_block *out)
{
    pthread_mutex_lock(&fk_heap_lock);
    const struct fk_block *const block = find(address);
    if (block)
        *out = *block;
    pthread_mutex_unlock(&fk_heap_lock);
    return block != NULL;
}

static bool inside(const struct fk_block *block, uint64_t address, uint64_t nbytes)
{
    return nbytes <= block->nbytes && address - block->address <= block->nbytes - nbytes;
}

bool fk_in_block(uint64_t address, uint64_t nbytes)
{
    struct fk_block block;
    return nbytes == 0 || (fk_heap_find(address, &block) && inside(&block, address, nbytes));
}

bool fk_reachable(const struct fk_context *ctx, uint64_t address, uint64_t nbytes)
{
    struct fk_block block;
    if (nbytes == 0)
        return true;
    if (!fk_heap_find(address, &block) || !inside(&block, address, nbytes))
        return false;
    if (block.where == FK_PINNED || block.where == FK_REGISTERED || block.ordinal == ctx->device->ordinal)
        return true;
    const uint32_t bits = block.pool ? block.pool->access : ctx->peers;
    return bits >> (block.pool ? ctx->device->ordinal : block.ordinal) & 1;
}

int64_t fk_heap_live(enum fk_where where)
{
    int64_t live = 0;
    pthread_mutex_lock(&fk_heap_lock);
    for (size_t i = 0; i < count; i++)
        live += blocks[i].where == where;
    pthread_mutex_unlock(&fk_heap_lock);
    return live;
}
