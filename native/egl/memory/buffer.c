/* Buffers. Each gets an address that this backend makes up, because GL buffers have no addresses.
 * Also reads and writes the bytes of buffers. */
#include "buffer.h"
#include "dl/gl.h"
#include "egl/context/names.h"

#include <errno.h>
#include <string.h>

struct sp_egl_buffer *sp_egl_find(const struct sp_egl *dev, uint64_t address, uint64_t nbytes, uint64_t *offset,
                                  int *rc)
{
    *rc = -EFAULT;
    uint64_t index = (address ^ (uint64_t)1 << SP_EGL_TAG_BIT) >> SP_EGL_INDEX_BIT;
    if (index >= SP_EGL_MAX_BUFFERS)
        return NULL;
    struct sp_egl_buffer *b = atomic_load_explicit(&dev->buffers[index], memory_order_acquire);
    if (!b || !atomic_load_explicit(&b->live, memory_order_acquire))
        return NULL;
    uint64_t have = atomic_load_explicit(&b->nbytes, memory_order_relaxed);
    *offset = address & (((uint64_t)1 << SP_EGL_INDEX_BIT) - 1);
    *rc = -ERANGE;
    if (*offset > have || nbytes > have - *offset)
        return NULL;
    *rc = 0;
    return b;
}

void sp_egl_read(struct sp_egl *dev, struct sp_egl_buffer *b, uint64_t offset, void *out, uint64_t nbytes)
{
    (void)dev;
    if (nbytes == 0)
        return;
    if (b->mapping) {
        memcpy(out, (char *)b->mapping + offset, nbytes);
        return;
    }
    sp_glBindBuffer(GL_COPY_READ_BUFFER, b->name);
    const void *from = sp_glMapBufferRange(GL_COPY_READ_BUFFER, (intptr_t)offset, (intptr_t)nbytes, GL_MAP_READ_BIT);
    if (from)
        memcpy(out, from, nbytes);
    sp_glUnmapBuffer(GL_COPY_READ_BUFFER);
}

void sp_egl_write(struct sp_egl *dev, struct sp_egl_buffer *b, uint64_t offset, const void *data, uint64_t nbytes)
{
    (void)dev;
    if (nbytes == 0)
        return;
    sp_glBindBuffer(GL_COPY_WRITE_BUFFER, b->name);
    sp_glBufferSubData(GL_COPY_WRITE_BUFFER, (intptr_t)offset, (intptr_t)nbytes, data);
}
