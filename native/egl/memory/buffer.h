/* A buffer: its address, and access to its bytes through GL. */
#ifndef SP_EGL_BUFFER_H
#define SP_EGL_BUFFER_H
#include "egl/device/device.h"

enum { SP_EGL_TAG_BIT = 62, SP_EGL_INDEX_BIT = 40 }; /* bits of our addresses */

struct sp_egl_buffer {
    struct sp_egl_buffer *next; /* in the pool */
    uint32_t index;
    uint32_t name;
    uint32_t size_class;
    uint32_t memory; /* enum sp_egl_memory */
    uint64_t capacity;
    _Atomic uint64_t nbytes; /* requested size */
    _Atomic uint32_t live;
    void *mapping;        /* NULL if buffers cannot stay mapped */
    /* then: the memory that map() returned, which the owner copies in and out around each use */
    _Atomic(void *) shadow;
    int is_file;          /* the shadow is a mapped file */
    char apart[SP_EGL_APART];
    uint64_t touched;     /* owner: the job that last copied the shadow in */
    uint64_t used_since;  /* owner: the number of the barrier before its last use by a dispatch */
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
