/* An arena: memory of one dispatch that the next dispatch reuses. */
#ifndef SP_EMU_RACE_ARENA_H
#define SP_EMU_RACE_ARENA_H
#include <stddef.h>
#include <stdint.h>

struct sp_arena_block;
struct sp_arena {
    struct sp_arena_block *used, *free;
    size_t left;
    uint32_t blocks; /* number of blocks in `used` and `free` together */
};
/* Returns zeroed memory. `nbytes` is a multiple of 8. NULL: out of memory, or beyond the limit of a
 * dispatch. */
void *sp_arena_get(struct sp_arena *arena, size_t nbytes);
/* Frees all memory that was taken. Returns all but a few blocks to the host. */
void sp_arena_reset(struct sp_arena *arena);
void sp_arena_free(struct sp_arena *arena);
#endif
