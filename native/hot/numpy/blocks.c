/* Large blocks of memory that are used again. If a C library returns a block to Linux, Linux maps
 * and zeroes new pages at the next request. That can take longer than the operation that writes
 * there. benchmarks/results/amd-epyc-26-2/recycled-blocks.txt has the gain of each rule here.
 *
 * A freed block is idle, first in a list. A request gets the newest idle block that fits, else a
 * new mapping. If idle blocks exceed the limit or MOST_IDLE, the longest idle ones are returned to
 * Linux. This file calls no Python; result.c makes numpy's arrays from the blocks. */
#define _GNU_SOURCE
#include "blocks.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static const size_t PAGE = 4096, HUGE_PAGE = 2 << 20, HUGE_FROM = 4 << 20;
/* limit of the number of idle blocks, because a search looks at each of them */
enum { MOST_IDLE = 128 };

/* The header of a block of memory for numpy arrays. The data follow it. */
struct block {
    struct block *older;
    void *mapping;
    size_t mapped_nbytes, nbytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *newest; /* first in the list of idle blocks */
static size_t limit_nbytes;
static int limited; /* 1: hot_blocks_limit was called, so limit_nbytes is no longer the initial 0 */

static void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

static void leave_lock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Takes the lock around fork(2). Otherwise a child that is forked while another thread holds the
 * lock would wait for it for ever. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(take_lock, leave_lock, leave_lock);
}

static struct block *map(size_t nbytes)
{
    const size_t align = nbytes >= HUGE_FROM ? HUGE_PAGE : PAGE;
    const size_t mapped_nbytes = sizeof(struct block) + align + nbytes;
    void *const mapping = mmap(NULL, mapped_nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return NULL;
    const uintptr_t data = ((uintptr_t)mapping + sizeof(struct block) + align - 1) & ~(align - 1);
    if (align == HUGE_PAGE)
        madvise((void *)data, nbytes, MADV_HUGEPAGE); /* only a hint */
    struct block *const made = (struct block *)data - 1;
    *made = (struct block){.mapping = mapping, .mapped_nbytes = mapped_nbytes, .nbytes = nbytes};
    return made;
}

static void unmap(struct block *first)
{
    while (first) {
        struct block *const older = first->older;
        munmap(first->mapping, first->mapped_nbytes);
        first = older;
    }
}

/* Keeps the newest idle blocks, up to `nbytes` in total. Removes the older blocks from the list and
 * returns them. The caller holds the lock, and unmaps these blocks after releasing it. */
static struct block *beyond(size_t nbytes)
{
    struct block **at = &newest;
    for (int n = 0; *at && n < MOST_IDLE && (*at)->nbytes <= nbytes; n++) {
        nbytes -= (*at)->nbytes;
        at = &(*at)->older;
    }
    struct block *const gone = *at;
    *at = NULL;
    return gone;
}

/* Returns the newest idle block that fits and removes it from the list, or returns NULL. A block
 * fits if it is at most a quarter larger than `nbytes`. */
static struct block *fitting(size_t nbytes)
{
    take_lock();
    struct block **at = &newest;
    while (*at && ((*at)->nbytes < nbytes || (*at)->nbytes - nbytes > nbytes / 4))
        at = &(*at)->older;
    struct block *const found = *at;
    if (found)
        *at = found->older;
    leave_lock();
    return found;
}

static void *give(void *context, size_t nbytes)
{
    (void)context;
    if (nbytes > PTRDIFF_MAX / 2)
        return NULL;
    struct block *found = fitting(nbytes);
    if (!found)
        found = map(nbytes);
    if (!found) { /* the idle blocks may use all memory: unmap them, try again */
        hot_blocks_release();
        found = map(nbytes);
    }
    return found ? found + 1 : NULL;
}

static void *give_zeroed(void *context, size_t count, size_t nbytes)
{
    void *const data = nbytes && count > SIZE_MAX / nbytes ? NULL : give(context, count * nbytes);
    return data ? memset(data, 0, count * nbytes) : NULL;
}

static void take_back(void *context, void *data, size_t nbytes)
{
    (void)context;
    (void)nbytes; /* the block's header has its size */
    if (!data)
        return;
    struct block *gone = (struct block *)data - 1;
    gone->older = NULL;
    take_lock();
    /* a block above the limit is unmapped at once: in the list it would push out all other
     * blocks */
    if (gone->nbytes <= limit_nbytes) {
        gone->older = newest;
        newest = gone;
        gone = beyond(limit_nbytes);
    }
    leave_lock();
    unmap(gone);
}

static void *give_resized(void *context, void *data, size_t nbytes)
{
    void *const made = give(context, nbytes);
    if (made && data) {
        const size_t there = ((struct block *)data - 1)->nbytes;
        memcpy(made, data, nbytes < there ? nbytes : there);
        take_back(context, data, there);
    }
    return made;
}

const struct hot_allocator hot_blocks = {NULL, give, give_zeroed, give_resized, take_back};

void hot_blocks_limit(size_t nbytes, int first)
{
    take_lock();
    if (!limited || !first)
        limit_nbytes = nbytes;
    limited = 1;
    struct block *const gone = beyond(limit_nbytes);
    leave_lock();
    unmap(gone);
}

void hot_blocks_release(void)
{
    take_lock();
    struct block *const gone = beyond(0);
    leave_lock();
    unmap(gone);
}

void hot_blocks_tell(size_t *idle, size_t *limit)
{
    take_lock();
    *limit = limit_nbytes;
    *idle = 0;
    for (const struct block *b = newest; b; b = b->older)
        *idle += b->nbytes;
    leave_lock();
}
