/* Large blocks of memory that are given out again: see blocks.c. Any thread may call, with the GIL or without. */
#ifndef SP_HOT_BLOCKS_H
#define SP_HOT_BLOCKS_H
#include <stddef.h>

/* PyDataMemAllocator of numpy/ndarraytypes.h. */
struct hot_allocator {
    void *context; /* the first argument of each function */
    void *(*malloc)(void *context, size_t nbytes);
    void *(*calloc)(void *context, size_t count, size_t nbytes);
    void *(*realloc)(void *context, void *data, size_t nbytes);
    void (*free)(void *context, void *data, size_t nbytes);
};

/* Its memory is aligned to 4096 bytes. */
extern const struct hot_allocator hot_blocks;

/* From now on idle blocks take at most that many bytes together; what is beyond goes. `first`: only if no limit was set before.
 * Until then the limit is 0: none is kept. */
void hot_blocks_limit(size_t nbytes, int first);
/* All idle blocks go. */
void hot_blocks_release(void);
/* Bytes of the idle blocks, and the limit. */
void hot_blocks_tell(size_t *idle, size_t *limit);
#endif
