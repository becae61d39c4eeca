/* Large blocks of memory that are used again (blocks.c). Any thread may call these functions, with
 * the GIL or without. */
#ifndef SP_HOT_BLOCKS_H
#define SP_HOT_BLOCKS_H
#include <stddef.h>

/* The layout of PyDataMemAllocator in numpy/ndarraytypes.h. */
struct hot_allocator {
    void *context; /* first argument of each function of this struct */
    void *(*malloc)(void *context, size_t nbytes);
    void *(*calloc)(void *context, size_t count, size_t nbytes);
    void *(*realloc)(void *context, void *data, size_t nbytes);
    void (*free)(void *context, void *data, size_t nbytes);
};

/* An allocator whose memory is aligned to 4096 bytes. */
extern const struct hot_allocator hot_blocks;

/* Limits the total bytes of idle blocks and unmaps the excess. With `first`, does so only if no
 * limit was set before. The initial limit is 0, so no block is kept. */
void hot_blocks_limit(size_t nbytes, int first);
/* Unmaps all idle blocks. */
void hot_blocks_release(void);
/* Gives the total bytes of the idle blocks, and their limit. */
void hot_blocks_tell(size_t *idle, size_t *limit);
#endif
