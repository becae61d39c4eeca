/* Allocates buffers, and keeps freed ones in a pool by size. Their storage stays mapped if
 * possible. The pool exists because making, mapping and deleting 16 MiB takes milliseconds. */
#include "pool.h"
#include "buffer.h"
#include "core/base.h"
#include "dl/gl.h"
#include "egl/context/messages.h"
#include "egl/context/names.h"
#include "egl/device/references.h"
#include "egl/device/request.h"
#include "shadow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 256 };
static const uint64_t MOST_POOLED = (uint64_t)256 << 20;
static const uint64_t PATIENCE_NS = 60000000000u;

/* Returns the number of the size class for `nbytes`, and the size of its buffers in `capacity`.
 * Between one power of two and the next there are four classes, so rounding up adds at most a
 * quarter. */
static uint32_t class_of(uint64_t nbytes, uint64_t *capacity)
{
    uint64_t octave = SMALLEST;
    uint32_t c = 0;
    while (octave * 2 <= nbytes) {
        octave *= 2;
        c += 4;
    }
    uint64_t quarter = octave / 4;
    uint64_t size = octave;
    while (size < nbytes) {
        size += quarter;
        c++;
    }
    *capacity = size;
    return c;
}

static uint64_t address_of(const struct sp_egl_buffer *b)
{
    return (uint64_t)1 << SP_EGL_TAG_BIT | (uint64_t)b->index << SP_EGL_INDEX_BIT;
}

/* Makes GL storage for one buffer. Returns 0 or -ENOMEM. Only the owner thread calls this. */
static int make_storage(struct sp_egl *dev, struct sp_egl_buffer *b)
{
    uint32_t access = GL_MAP_READ_BIT | GL_MAP_WRITE_BIT;
    uint32_t persistent = GL_MAP_PERSISTENT_BIT | GL_MAP_COHERENT_BIT;
    int stays = sp_egl_is(dev, SP_EGL_PERSISTENT) && b->memory != SP_EGL_SHARED &&
                (b->memory == SP_EGL_HOST || sp_egl_is(dev, SP_EGL_SOFTWARE));
    uint32_t flags = GL_DYNAMIC_STORAGE_BIT | access | (stays ? persistent : 0);
    flags |= b->memory ? GL_CLIENT_STORAGE_BIT : 0;
    intptr_t nbytes = (intptr_t)b->capacity;
    sp_egl_complaint(dev, 1);
    dev->error[0] = '\0';
    sp_glGenBuffers(1, &b->name);
    sp_glBindBuffer(GL_COPY_WRITE_BUFFER, b->name);
    if (!sp_egl_is(dev, SP_EGL_PERSISTENT))
        sp_glBufferData(GL_COPY_WRITE_BUFFER, nbytes, NULL, GL_DYNAMIC_COPY);
    else if (sp_egl_is(dev, SP_EGL_ES))
        sp_glBufferStorageEXT(GL_COPY_WRITE_BUFFER, nbytes, NULL, flags);
    else
        sp_glBufferStorage(GL_COPY_WRITE_BUFFER, nbytes, NULL, flags);
    const char *complaint = sp_egl_complaint(dev, 1);
    b->mapping = NULL;
    if (stays && !complaint) {
        b->mapping = sp_glMapBufferRange(GL_COPY_WRITE_BUFFER, 0, nbytes, access | persistent);
        complaint = sp_egl_complaint(dev, 1);
    }
    dev->error[0] = '\0';
    if (!complaint && (b->mapping || !stays))
        return 0;
    sp_glDeleteBuffers(1, &b->name);
    b->name = 0;
    return -ENOMEM;
}

static void delete_storage(struct sp_egl_buffer *b)
{
    sp_glDeleteBuffers(1, &b->name); /* deletes the buffer's mapping too */
    b->name = 0;
    b->mapping = NULL;
}

static void zero(struct sp_egl *dev, struct sp_egl_buffer *b, uint64_t nbytes)
{
    static const uint32_t nought;
    uint64_t whole = (nbytes + 3) & ~(uint64_t)3;
    if (b->mapping) {
        memset(b->mapping, 0, whole);
    } else if (!sp_egl_is(dev, SP_EGL_ES)) {
        sp_glBindBuffer(GL_COPY_WRITE_BUFFER, b->name);
        sp_glClearBufferSubData(GL_COPY_WRITE_BUFFER, GL_R32UI, 0, (intptr_t)whole, GL_RED_INTEGER, GL_UNSIGNED_INT,
                                &nought);
    } else {
        void *zeros = calloc(1, whole);
        if (zeros)
            sp_egl_write(dev, b, 0, zeros, whole);
        free(zeros);
    }
}

struct alloc_request {
    struct sp_egl_request r;
    struct sp_egl_buffer *b;
    uint64_t nbytes;
    int fresh;
};

/* Puts a buffer whose storage was deleted on the list `unused`. Only the owner thread calls this,
 * or any thread after the owner thread has ended. */
static void give_up(struct sp_egl *dev, struct sp_egl_buffer *b)
{
    pthread_mutex_lock(&dev->lock);
    b->next = dev->unused;
    dev->unused = b;
    pthread_mutex_unlock(&dev->lock);
}

static int run_alloc(struct sp_egl *dev, struct sp_egl_request *r)
{
    struct alloc_request *a = (struct alloc_request *)r;
    int rc = a->fresh ? make_storage(dev, a->b) : 0;
    if (rc == 0)
        zero(dev, a->b, a->nbytes);
    else
        give_up(dev, a->b);
    return rc;
}

static void to_pool(struct sp_egl *dev, struct sp_egl_buffer *b);

static void drop_alloc(struct sp_egl *dev, struct sp_egl_request *r)
{
    struct alloc_request *a = (struct alloc_request *)r;
    if (a->r.rc == 0)
        to_pool(dev, a->b);
}

/* Takes a buffer with storage from the pool, or a buffer without storage (`fresh`) if the pool has
 * none. The caller holds the device's lock. */
static struct sp_egl_buffer *take(struct sp_egl *dev, uint32_t c, uint32_t memory, uint64_t capacity, int *fresh)
{
    struct sp_egl_buffer **shelf = &dev->pool[c][memory];
    struct sp_egl_buffer *b = *shelf;
    *fresh = b == NULL;
    if (b) {
        *shelf = b->next;
        dev->pooled_nbytes -= b->capacity;
        return b;
    }
    b = dev->unused;
    if (b) {
        dev->unused = b->next;
    } else {
        if (dev->nbuffers == SP_EGL_MAX_BUFFERS || !(b = calloc(1, sizeof *b)))
            return NULL;
        b->index = dev->nbuffers++;
        atomic_store_explicit(&dev->buffers[b->index], b, memory_order_release);
    }
    b->size_class = c;
    b->memory = memory;
    b->capacity = capacity;
    return b;
}

static int alloc(struct sp_egl *dev, uint64_t nbytes, uint32_t memory, uint64_t *address)
{
    if (atomic_load(&dev->common.lost))
        return -ENODEV;
    if (nbytes >= (uint64_t)1 << SP_EGL_INDEX_BIT || memory > SP_EGL_SHARED)
        return memory > SP_EGL_SHARED ? -EINVAL : -ENOMEM;
    struct alloc_request *a = calloc(1, sizeof *a);
    if (!a)
        return -ENOMEM;
    uint64_t capacity;
    uint32_t c = class_of(nbytes, &capacity);
    pthread_mutex_lock(&dev->lock);
    struct sp_egl_buffer *b = take(dev, c, memory, capacity, &a->fresh);
    pthread_mutex_unlock(&dev->lock);
    int rc = b ? 0 : -ENOMEM;
    /* No submission in flight uses a buffer of the pool. So the calling thread can zero its mapped
     * memory without the owner thread. */
    if (b && !a->fresh && b->mapping) {
        memset(b->mapping, 0, nbytes);
        free(a);
    } else if (b) {
        a->b = b;
        a->nbytes = nbytes;
        a->r.run = run_alloc;
        a->r.drop = drop_alloc;
        rc = sp_egl_request(dev, &a->r, PATIENCE_NS);
    } else {
        free(a);
    }
    if (rc)
        return rc;
    atomic_store(&b->nbytes, nbytes);
    atomic_store(&b->live, 1);
    atomic_fetch_add(&sp_live()->allocations, 1);
    atomic_fetch_add(&sp_live()->allocated_nbytes, (int64_t)nbytes);
    *address = address_of(b);
    return 0;
}

int sp_egl_alloc(struct sp_egl *dev, uint64_t nbytes, uint32_t memory, uint64_t *address)
{
    int rc = sp_egl_enter(dev);
    if (rc)
        return rc;
    rc = alloc(dev, nbytes, memory, address);
    sp_egl_leave(dev);
    return rc;
}

struct delete_request {
    struct sp_egl_request r;
    struct sp_egl_buffer *b;
};

static int run_delete(struct sp_egl *dev, struct sp_egl_request *r)
{
    struct sp_egl_buffer *b = ((struct delete_request *)r)->b;
    for (uint32_t i = 0; i < SP_EGL_BINDINGS; i++)
        if (dev->bound[i].name == b->name)
            dev->bound[i].name = 0;
    delete_storage(b);
    give_up(dev, b);
    return 0;
}

static void to_pool(struct sp_egl *dev, struct sp_egl_buffer *b)
{
    struct delete_request *d = NULL;
    pthread_mutex_lock(&dev->lock);
    int full = dev->pooled_nbytes + b->capacity > MOST_POOLED;
    if (!full || !(d = calloc(1, sizeof *d))) {
        dev->pooled_nbytes += b->capacity;
        b->next = dev->pool[b->size_class][b->memory];
        dev->pool[b->size_class][b->memory] = b;
    }
    pthread_mutex_unlock(&dev->lock);
    if (d) {
        d->b = b;
        d->r.run = run_delete;
        sp_egl_request(dev, &d->r, 0);
    }
}

void sp_egl_free(struct sp_egl *dev, uint64_t address)
{
    uint64_t offset;
    int rc;
    if (sp_egl_enter(dev))
        return; /* the owner thread frees all buffers when it ends the context */
    struct sp_egl_buffer *b = sp_egl_find(dev, address, 0, &offset, &rc);
    if (b) {
        atomic_store(&b->live, 0);
        atomic_fetch_sub(&sp_live()->allocations, 1);
        atomic_fetch_sub(&sp_live()->allocated_nbytes, (int64_t)atomic_load(&b->nbytes));
        sp_egl_shadow_drop(b);
        to_pool(dev, b);
    }
    sp_egl_leave(dev);
}

void sp_egl_buffers_drop(struct sp_egl *dev)
{
    for (uint32_t i = 0; i < dev->nbuffers; i++) {
        struct sp_egl_buffer *b = atomic_load(&dev->buffers[i]);
        if (b->name)
            delete_storage(b);
        if (atomic_load(&b->live)) { /* the caller closed the device before freeing this buffer */
            atomic_fetch_sub(&sp_live()->allocations, 1);
            atomic_fetch_sub(&sp_live()->allocated_nbytes, (int64_t)atomic_load(&b->nbytes));
        }
        sp_egl_shadow_drop(b);
        free(b);
    }
    dev->nbuffers = 0;
}
