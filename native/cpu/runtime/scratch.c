/* Scratch memory of a thread: a few blocks that only grow, and are freed when the thread ends. */
#define _GNU_SOURCE
#include "kernel.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Blocks of LARGE bytes or more consist of whole huge pages, if the system offers these by madvise.
 * With 4 KiB pages, panels and their sources span more pages than a core's TLB holds. That makes a
 * product of 1024 cubed 2 % slower (Zen 4). */
enum { ALIGN = 64, LARGE = 256 << 10, HUGE_PAGE = 2 << 20 };

struct scratch {
    void *block[SP_SCRATCH_SLOTS];
    size_t nbytes[SP_SCRATCH_SLOTS];
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_ok;

static void release(void *p)
{
    struct scratch *s = p;
    for (int i = 0; i < SP_SCRATCH_SLOTS; i++)
        free(s->block[i]);
    free(s);
}

static void make_key(void)
{
    key_ok = pthread_key_create(&key, release) == 0;
}

/* Returns the calling thread's scratch blocks or NULL. Uses pthread_getspecific, because with
 * __thread the library would list the dynamic loader among the libraries that it needs. */
static struct scratch *of_thread(void)
{
    pthread_once(&once, make_key);
    struct scratch *s = key_ok ? pthread_getspecific(key) : NULL;
    if (s || !key_ok)
        return s;
    s = calloc(1, sizeof *s);
    if (s && pthread_setspecific(key, s)) {
        free(s);
        s = NULL;
    }
    return s;
}

static void *block_of(size_t nbytes)
{
    const size_t unit = nbytes < LARGE ? ALIGN : HUGE_PAGE;
    if (nbytes > SIZE_MAX - unit)
        return NULL;
    const size_t whole = (nbytes + unit - 1) / unit * unit;
    void *const block = aligned_alloc(unit, whole);
    if (block && unit == HUGE_PAGE)
        madvise(block, whole, MADV_HUGEPAGE); /* only a hint */
    return block;
}

void *sp_scratch(uint32_t slot, size_t nbytes)
{
    struct scratch *s = slot < SP_SCRATCH_SLOTS ? of_thread() : NULL;
    if (!s)
        return NULL;
    if (nbytes > s->nbytes[slot]) {
        free(s->block[slot]);
        s->nbytes[slot] = 0;
        s->block[slot] = block_of(nbytes);
        if (s->block[slot])
            s->nbytes[slot] = nbytes;
    }
    return nbytes ? s->block[slot] : s;
}
