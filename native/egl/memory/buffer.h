/* A buffer: its address, and access to its bytes through GL. */
#ifndef SP_EGL_BUFFER_H
#define SP_EGL_BUFFER_H
#include "egl/device/device.h"

/* A buffer address has bit SP_EGL_TAG_BIT set. The buffer's index begins at bit SP_EGL_INDEX_BIT.
 * The bits below SP_EGL_INDEX_BIT are the offset in the buffer in bytes. */
enum { SP_EGL_TAG_BIT = 62, SP_EGL_INDEX_BIT = 40 };

struct sp_egl_buffer {
    struct sp_egl_buffer *next; /* next buffer in a list of the pool */
    uint32_t index;
    uint32_t name;
    uint32_t size_class;
    uint32_t memory; /* an enum sp_egl_memory */
    uint64_t capacity;
    _Atomic uint64_t nbytes; /* requested size in bytes */
    _Atomic uint32_t live;
    void *mapping;        /* CPU address; NULL if this buffer cannot stay mapped */
    /* Host memory that a caller sees for a buffer without `mapping`. The owner thread copies this
     * memory to the buffer before each job that uses the buffer, and back after the job. */
    _Atomic(void *) shadow;
    int is_file;          /* 1 if the shadow is a mapped file */
    char apart[SP_EGL_APART];
    /* Value of the device's counter `runs` when `shadow` was last copied to the buffer. `shadow` is
     * copied again only if `runs` has another value now. Only the owner thread uses this member. */
    uint64_t touched;
    /* Value of the device's counter `barriers` when a dispatch last used the buffer. Only the owner
     * thread uses this member. */
    uint64_t used_since;
};

static inline int sp_egl_is_ours(uint64_t address)
{
    return (address >> SP_EGL_TAG_BIT) & 1;
}

struct sp_egl_buffer *sp_egl_find(const struct sp_egl *dev, uint64_t address, uint64_t nbytes, uint64_t *offset,
                                  int *rc);
/* Owner. */
void sp_egl_read(struct sp_egl *dev, struct sp_egl_buffer *b, uint64_t offset, void *out, uint64_t nbytes);
void sp_egl_write(struct sp_egl *dev, struct sp_egl_buffer *b, uint64_t offset, const void *data, uint64_t nbytes);
#endif
