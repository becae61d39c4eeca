/* Large blocks of memory that are given out again. What a C library gives back to the kernel is zeroed and mapped anew, page by
 * page, when it is asked for again: that can take longer than the operation that writes there.
 *
 * A block that comes back is idle, first in a list. Who asks gets the idle block that fits best, else a new mapping. Idle ones
 * go to the kernel, the longest idle first, where they are more than the limit says, more than MOST_IDLE, or idle for LONGEST_S
 * (looked at when a block is asked for or comes back: no clock runs for that). The largest are marked as free meanwhile: a machine
 * that runs short takes them. On huge pages that is about 1 % of writing them once; smaller blocks are of other pages, or in the
 * caches still, where it is more.
 *
 * Thread safe. A forked child lets its parent's idle blocks go. No Python here; result.c makes numpy's arrays of it. */
#define _GNU_SOURCE
#include "blocks.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const size_t SMALL_STEP = 64 << 10, HUGE_PAGE = 2 << 20, HUGE_FROM = 4 << 20, FREE_FROM = 32 << 20;
enum { MOST_IDLE = 128, LONGEST_S = 10 };

/* In the page before the data. */
struct block {
    struct block *newer, *older;
    size_t nbytes; /* of data, whole pages */
    time_t since;  /* when it became idle */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *newest, *oldest; /* the idle ones, and what follows about them */
static size_t idle_nbytes, limit_nbytes, idle_count;
static int limited; /* was a limit set? */

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static struct block *block_of(void *data)
{
    return (void *)((char *)data - page());
}

static void *data_of(struct block *b)
{
    return (char *)b + page();
}

static size_t rounded(size_t nbytes)
{
    const size_t step = nbytes >= HUGE_FROM ? HUGE_PAGE : page() > SMALL_STEP ? page() : SMALL_STEP;
    return nbytes ? (nbytes + step - 1) & ~(step - 1) : step;
}

static time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec;
}

/* ---- mappings ---- */

static struct block *map(size_t nbytes)
{
    const int large = nbytes >= HUGE_FROM;
    const size_t align = large ? HUGE_PAGE : page(), whole = nbytes + page() + align;
    char *const base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    char *const data = (char *)(((uintptr_t)base + page() + align - 1) & ~(uintptr_t)(align - 1));
    char *const first = data - page(), *const end = data + nbytes;
    if (first > base)
        munmap(base, (size_t)(first - base));
    if (base + whole > end)
        munmap(end, (size_t)(base + whole - end));
    if (large)
        madvise(data, nbytes, MADV_HUGEPAGE); /* a hint */
    struct block *const b = (void *)first;
    b->nbytes = nbytes;
    return b;
}

static void unmap_all(struct block *b)
{
    while (b) {
        struct block *const next = b->older;
        munmap(b, b->nbytes + page());
        b = next;
    }
}

/* ---- the list; with the lock ---- */

static void leave_list(struct block *b)
{
    *(b->newer ? &b->newer->older : &newest) = b->older;
    *(b->older ? &b->older->newer : &oldest) = b->newer;
    idle_nbytes -= b->nbytes;
    idle_count--;
}

/* What has to go, linked by `older`, to be unmapped without the lock. */
static struct block *surplus(size_t limit)
{
    const time_t latest = now() - LONGEST_S;
    struct block *gone = NULL;
    while (oldest && (idle_nbytes > limit || idle_count > MOST_IDLE || oldest->since < latest)) {
        struct block *const b = oldest;
        leave_list(b);
        b->older = gone;
        gone = b;
    }
    return gone;
}

/* The smallest idle block of these bytes that is not larger by more than a quarter; of equals the one that is idle since last,
 * which the caches may still have. */
static struct block *fitting(size_t nbytes)
{
    struct block *best = NULL;
    for (struct block *b = newest; b; b = b->older)
        if (b->nbytes >= nbytes && b->nbytes - nbytes <= nbytes / 4 && (!best || b->nbytes < best->nbytes))
            best = b;
    return best;
}

/* ---- forks ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    pthread_mutex_unlock(&lock);
    hot_blocks_release();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- what others call ---- */

/* `*is_new`: of zeros. */
static void *block(size_t wanted, int *is_new)
{
    if (wanted > PTRDIFF_MAX / 2)
        return NULL;
    const size_t nbytes = rounded(wanted);
    pthread_mutex_lock(&lock);
    struct block *found = fitting(nbytes);
    if (found)
        leave_list(found);
    struct block *const gone = surplus(limit_nbytes);
    pthread_mutex_unlock(&lock);
    unmap_all(gone);
    *is_new = !found;
    if (!found)
        found = map(nbytes);
    if (!found) { /* perhaps the idle ones are what is missing */
        hot_blocks_release();
        found = map(nbytes);
    }
    return found ? data_of(found) : NULL;
}

void *hot_block(size_t nbytes)
{
    int is_new;
    return block(nbytes, &is_new);
}

void *hot_block_zeroed(size_t nbytes)
{
    int is_new;
    void *const data = block(nbytes, &is_new);
    return data && !is_new ? memset(data, 0, nbytes) : data;
}

void *hot_block_resized(void *data, size_t nbytes)
{
    if (!data)
        return hot_block(nbytes);
    const size_t there = block_of(data)->nbytes;
    if (nbytes <= PTRDIFF_MAX / 2 && rounded(nbytes) == there)
        return data;
    void *const made = hot_block(nbytes);
    if (made) {
        memcpy(made, data, nbytes < there ? nbytes : there);
        hot_block_back(data);
    }
    return made;
}

void hot_block_back(void *data)
{
    if (!data)
        return;
    struct block *const b = block_of(data);
    if (b->nbytes > hot_blocks_most()) { /* it would push out all the others first */
        munmap(b, b->nbytes + page());
        return;
    }
    if (b->nbytes >= FREE_FROM)
        madvise(data, b->nbytes, MADV_FREE);
    pthread_mutex_lock(&lock);
    b->since = now();
    b->newer = NULL;
    b->older = newest;
    *(newest ? &newest->newer : &oldest) = b;
    newest = b;
    idle_nbytes += b->nbytes;
    idle_count++;
    struct block *const gone = surplus(limit_nbytes);
    pthread_mutex_unlock(&lock);
    unmap_all(gone);
}

void hot_blocks_limit(size_t nbytes, int first)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    if (!limited || !first)
        limit_nbytes = nbytes;
    limited = 1;
    struct block *const gone = surplus(limit_nbytes);
    pthread_mutex_unlock(&lock);
    unmap_all(gone);
}

size_t hot_blocks_most(void)
{
    pthread_mutex_lock(&lock);
    const size_t seen = limit_nbytes;
    pthread_mutex_unlock(&lock);
    return seen;
}

void hot_blocks_release(void)
{
    pthread_mutex_lock(&lock);
    struct block *const gone = surplus(0);
    pthread_mutex_unlock(&lock);
    unmap_all(gone);
}

size_t hot_blocks_idle(void)
{
    pthread_mutex_lock(&lock);
    const size_t seen = idle_nbytes;
    pthread_mutex_unlock(&lock);
    return seen;
}
