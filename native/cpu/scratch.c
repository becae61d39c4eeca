/* Scratch memory of a thread: a few grow-only blocks, freed when the thread ends. */
#include "kernel.h"

#include <pthread.h>
#include <stdlib.h>

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

/* pthread_getspecific rather than __thread: the latter makes the library need the dynamic loader by name. */
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

void *sp_scratch(uint32_t slot, size_t nbytes)
{
    struct scratch *s = slot < SP_SCRATCH_SLOTS ? of_thread() : NULL;
    if (!s || nbytes > SIZE_MAX - 63)
        return NULL;
    if (nbytes > s->nbytes[slot]) {
        free(s->block[slot]);
        s->nbytes[slot] = 0;
        s->block[slot] = aligned_alloc(64, (nbytes + 63) & ~(size_t)63);
        if (s->block[slot])
            s->nbytes[slot] = nbytes;
    }
    return nbytes ? s->block[slot] : s;
}
