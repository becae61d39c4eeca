/* Host memory as device memory: zeroed, aligned, counted. Large blocks come from mmap, blocks to
 * share with other processes from a memfd.
 *
 * A 64-byte header before the data says how to free the block. So sp_cpu_free needs only the
 * pointer, and cffi's gc passes no more than that. */
#define _GNU_SOURCE
#include "core/base.h"
#include "core/syscalls.h"
#include "include/sp_cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64, PAGE = 4096, LARGE = 65536, HUGE_PAGE = 2 << 20 };

struct header {
    void *base;
    uint64_t mapped; /* bytes to unmap; 0: the block came from malloc */
    uint64_t nbytes;
    uint64_t unused[5];
};
_Static_assert(sizeof(struct header) == ALIGN, "the header keeps the data aligned");

static void *publish(void *data, void *base, uint64_t mapped, uint64_t nbytes)
{
    struct header h = {.base = base, .mapped = mapped, .nbytes = nbytes};
    memcpy((char *)data - sizeof h, &h, sizeof h);
    atomic_fetch_add(&sp_live()->allocations, 1);
    atomic_fetch_add(&sp_live()->allocated_nbytes, (int64_t)nbytes);
    return data;
}

static void *align_up(void *p, uintptr_t to)
{
    return (void *)(((uintptr_t)p + to - 1) & ~(to - 1));
}

static void *reserve(uint64_t nbytes, uint64_t align, int protection, void **base, uint64_t *mapped)
{
    if (nbytes > (uint64_t)1 << 47)
        return NULL;
    *mapped = ((nbytes + PAGE - 1) & ~(uint64_t)(PAGE - 1)) + align + PAGE;
    *base = mmap(NULL, *mapped, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *base == MAP_FAILED ? NULL : align_up((char *)*base + ALIGN, align);
}

void *sp_cpu_alloc(uint64_t nbytes)
{
    if (nbytes < LARGE) {
        void *base = calloc(1, nbytes + 2 * ALIGN);
        return base ? publish(align_up((char *)base + ALIGN, ALIGN), base, 0, nbytes) : NULL;
    }
    void *base;
    uint64_t mapped;
    uint64_t align = nbytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
    void *data = reserve(nbytes, align, PROT_READ | PROT_WRITE, &base, &mapped);
    if (!data)
        return NULL;
    if (align == HUGE_PAGE)
        /* a hint, for fewer TLB misses in packing and copies */
        madvise(data, nbytes, MADV_HUGEPAGE);
    return publish(data, base, mapped, nbytes);
}

void sp_cpu_free(void *p)
{
    if (!p)
        return;
    struct header h;
    memcpy(&h, (char *)p - sizeof h, sizeof h);
    atomic_fetch_sub(&sp_live()->allocations, 1);
    atomic_fetch_sub(&sp_live()->allocated_nbytes, (int64_t)h.nbytes);
    if (h.mapped)
        munmap(h.base, h.mapped);
    else
        free(h.base);
}

/* Maps a memfd of `nbytes` bytes. Reserves a larger range first, so that a page for the header
 * precedes the data. Returns the address of the data or NULL. */
void *sp_cpu_map_shared(int fd, uint64_t nbytes)
{
    void *base;
    uint64_t mapped;
    if (nbytes == 0)
        return NULL;
    void *data = reserve(nbytes, PAGE, PROT_READ | PROT_WRITE, &base, &mapped);
    if (!data)
        return NULL;
    if (mmap(data, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(base, mapped);
        return NULL;
    }
    return publish(data, base, mapped, nbytes);
}

void *sp_cpu_alloc_shared(uint64_t nbytes, int *fd)
{
    *fd = sp_memfd_create("sparkle-shared", MFD_CLOEXEC);
    if (*fd < 0)
        return NULL;
    void *data = ftruncate(*fd, (off_t)nbytes) == 0 ? sp_cpu_map_shared(*fd, nbytes) : NULL;
    if (!data) {
        close(*fd);
        *fd = -1;
    }
    return data;
}
