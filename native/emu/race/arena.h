/* Memory that one dispatch uses and the next one takes over. */
#ifndef SP_EMU_RACE_ARENA_H
#define SP_EMU_RACE_ARENA_H
#include <stddef.h>
#include <stdint.h>

struct sp_arena_block;
struct sp_arena {
    struct sp_arena_block *used, *free;
    size_t left;
    uint32_t blocks; /* of both */
};
/* Zeros, of a multiple of 8 bytes; NULL: no memory, or as much as a dispatch may have. */
void *sp_arena_get(struct sp_arena *arena, size_t nbytes);
/* All that was got is free; what is more than a few blocks goes back to the host. */
void sp_arena_reset(struct sp_arena *arena);
void sp_arena_free(struct sp_arena *arena);
#endif
