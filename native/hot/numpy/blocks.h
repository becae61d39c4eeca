/* Large blocks of memory that are given out again: see blocks.c. Any thread may call, with the GIL or without. */
#ifndef SP_HOT_BLOCKS_H
#define SP_HOT_BLOCKS_H
#include <stddef.h>

/* `nbytes` bytes of anything, on a page of their own; NULL: no memory. */
void *hot_block(size_t nbytes);
/* The same, zeroed. */
void *hot_block_zeroed(size_t nbytes);
/* A block of another size with as much of the contents as fits, and the old one is gone; NULL: no memory, and it is not. */
void *hot_block_resized(void *data, size_t nbytes);
/* Nobody holds it any more; NULL is none. */
void hot_block_back(void *data);

/* From now on idle blocks are at most that many bytes together; what is beyond goes. `first`: unless a limit was set before.
 * Until then it is 0: none is kept. */
void hot_blocks_limit(size_t nbytes, int first);
/* The limit. */
size_t hot_blocks_most(void);
/* All idle blocks go. */
void hot_blocks_release(void);
/* Bytes of idle blocks. */
size_t hot_blocks_idle(void);
#endif
