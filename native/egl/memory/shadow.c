/* Shadows: a shadow is host memory that holds the contents of a buffer for callers.
 *
 * Two kinds of buffers need one. Some buffers cannot stay mapped: GL has no buffer storage, or a
 * mapping would move device memory to the host. Others are shared through a file. The owner thread
 * copies the shadow to the buffer before each job that uses the buffer, and back after that job. */
#include "shadow.h"
#include "core/base.h"
#include "egl/context/fence.h"
#include "egl/device/references.h"
#include "egl/device/request.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static const uint64_t PATIENCE_NS = 60000000000u;

void sp_egl_shadow_drop(struct sp_egl_buffer *b)
{
    void *shadow = atomic_exchange(&b->shadow, NULL);
    if (shadow && b->is_file)
        munmap(shadow, atomic_load(&b->nbytes));
    else
        free(shadow);
    b->is_file = 0;
}

static int share(struct sp_egl *dev, uint64_t address, int fd)
{
    uint64_t offset;
    int rc;
    struct sp_egl_buffer *b = sp_egl_find(dev, address, 0, &offset, &rc);
    if (!b || b->memory != SP_EGL_SHARED || atomic_load(&b->shadow))
        return b ? -EINVAL : rc;
    uint64_t nbytes = atomic_load(&b->nbytes);
    if (nbytes == 0)
        return 0;
    void *file = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED)
        return -errno;
    b->is_file = 1;
    atomic_store(&b->shadow, file);
    return 0;
}

int sp_egl_share(struct sp_egl *dev, uint64_t address, int fd)
{
    int rc = sp_egl_enter(dev);
    if (rc)
        return rc;
    rc = share(dev, address, fd);
    sp_egl_leave(dev);
    return rc;
}

struct map_request {
    struct sp_egl_request r;
    struct sp_egl_buffer *b;
};

static int run_map(struct sp_egl *dev, struct sp_egl_request *r)
{
    struct sp_egl_buffer *b = ((struct map_request *)r)->b;
    if (atomic_load(&b->shadow))
        return 0;
    uint64_t nbytes = atomic_load(&b->nbytes);
    void *shadow = calloc(1, nbytes + 1);
    if (!shadow)
        return -ENOMEM;
    sp_egl_drain(dev);
    sp_egl_read(dev, b, 0, shadow, nbytes);
    atomic_store(&b->shadow, shadow);
    return 0;
}

static int map(struct sp_egl *dev, uint64_t address, void **out)
{
    uint64_t offset;
    int rc;
    struct sp_egl_buffer *b = sp_egl_find(dev, address, 0, &offset, &rc);
    if (!b)
        return rc;
    if (!b->mapping && !atomic_load(&b->shadow)) {
        struct map_request *m = calloc(1, sizeof *m);
        if (!m)
            return -ENOMEM;
        m->b = b;
        m->r.run = run_map;
        if ((rc = sp_egl_request(dev, &m->r, PATIENCE_NS)))
            return rc;
    }
    *out = (char *)(b->mapping ? b->mapping : atomic_load(&b->shadow)) + offset;
    return sp_egl_hold_context(dev);
}

int sp_egl_map(struct sp_egl *dev, uint64_t address, void **out)
{
    int rc = sp_egl_enter(dev);
    if (rc)
        return rc;
    rc = map(dev, address, out);
    sp_egl_leave(dev);
    return rc;
}

void sp_egl_touch(struct sp_egl *dev, struct sp_egl_buffer *b)
{
    void *shadow = atomic_load_explicit(&b->shadow, memory_order_acquire);
    if (!shadow || b->touched == dev->runs)
        return;
    if (dev->ntouched == SP_EGL_BINDINGS) {
        sp_egl_untouch(dev);
        /* sp_egl_untouch has just copied every buffer that this job has used back to its shadow.
         * The next use of such a buffer must copy the shadow to the buffer again. A new value of
         * `runs` has this effect, because the buffer's `touched` then differs from it. */
        dev->runs++;
    }
    b->touched = dev->runs;
    dev->touched[dev->ntouched++] = b;
    sp_egl_write(dev, b, 0, shadow, atomic_load(&b->nbytes));
}

void sp_egl_untouch(struct sp_egl *dev)
{
    if (dev->ntouched)
        sp_egl_drain(dev);
    for (uint32_t i = 0; i < dev->ntouched; i++) {
        struct sp_egl_buffer *b = dev->touched[i];
        sp_egl_read(dev, b, 0, atomic_load(&b->shadow), atomic_load(&b->nbytes));
    }
    dev->ntouched = 0;
}
