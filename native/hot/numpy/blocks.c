/* Large blocks of memory that are given out again. What a C library gives back to the kernel is zeroed and mapped anew, page by
 * page, when it is asked for again: that can take longer than the operation that writes there. What each rule here is worth
 * stands in benchmarks/results/amd-epyc-26-2/recycled-blocks.txt.
 *
 * A block that comes back is idle, first in a list. Who asks gets the newest idle block that fits, else a new mapping. Idle
 * blocks beyond the limit or beyond MOST_IDLE go to the kernel, the longest idle first. No Python here; result.c makes numpy's
 * arrays of blocks. */
#define _GNU_SOURCE
#include "blocks.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static const size_t PAGE = 4096, HUGE_PAGE = 2 << 20, HUGE_FROM = 4 << 20;
enum { MOST_IDLE = 128 }; /* a search looks at each of them */

/* Right before the data. */
struct block {
    struct block *older;
    void *mapping;
    size_t mapped_nbytes, nbytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *newest; /* of the idle ones */
static size_t limit_nbytes;
static int limited; /* was a limit set? */

static void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

static void leave_lock(void)
{
    pthread_mutex_unlock(&lock);
}

/* A child that is forked while another thread holds the lock would wait for it for ever. */
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
        madvise((void *)data, nbytes, MADV_HUGEPAGE); /* a hint */
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

/* With the lock: takes out of the list what is beyond `nbytes`, to be unmapped without the lock. */
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

/* The newest idle block of these bytes that is not larger by more than a quarter, out of the list. */
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
    if (!found) { /* perhaps the idle ones are what is missing */
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
    (void)nbytes; /* the block knows */
    if (!data)
        return;
    struct block *gone = (struct block *)data - 1;
    gone->older = NULL;
    take_lock();
    if (gone->nbytes <= limit_nbytes) { /* else it would push out all the others first */
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
