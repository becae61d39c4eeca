#include "arena.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 18, BLOCKS_MOST = 2048, BLOCKS_KEPT = 64 };

struct sp_arena_block {
    struct sp_arena_block *chain;
    uint8_t bytes[BLOCK - sizeof(void *)];
};

void *sp_arena_get(struct sp_arena *arena, size_t nbytes)
{
    if (arena->left < nbytes) {
        struct sp_arena_block *block = arena->free;
        if (block)
            arena->free = block->chain;
        else if (arena->blocks == BLOCKS_MOST || !(block = malloc(sizeof *block)))
            return NULL;
        else
            arena->blocks++;
        block->chain = arena->used;
        arena->used = block;
        arena->left = sizeof block->bytes;
    }
    void *at = arena->used->bytes + (sizeof arena->used->bytes - arena->left);
    arena->left -= nbytes;
    return memset(at, 0, nbytes);
}

void sp_arena_reset(struct sp_arena *arena)
{
    for (struct sp_arena_block *block; (block = arena->used);) {
        arena->used = block->chain;
        if (arena->blocks > BLOCKS_KEPT) {
            free(block);
            arena->blocks--;
            continue;
        }
        block->chain = arena->free;
        arena->free = block;
    }
    arena->left = 0;
}

void sp_arena_free(struct sp_arena *arena)
{
    sp_arena_reset(arena);
    for (struct sp_arena_block *block; (block = arena->free);) {
        arena->free = block->chain;
        free(block);
    }
}
