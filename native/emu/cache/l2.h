/* GL2, the last cache of a card: the view that its agents (waves, command processor, SDMA) have of
 * memory that is not mapped UC. */
#ifndef SP_EMU_CACHE_L2_H
#define SP_EMU_CACHE_L2_H
#include "emu/vm.h"

#include <stdbool.h>

/* Cache actions of a GCR_CNTL or of a wave's instruction. */
enum { SP_GCR_GLI_INV = 1, SP_GCR_GLK_INV = 2, SP_GCR_GLV_INV = 4, SP_GCR_GL1_INV = 8, SP_GCR_GL2_INV = 16, SP_GCR_GL2_WB = 32,
       SP_GCR_MEM_SYNC = 63 }; /* EMIT_MEM_SYNC: the kernel emits 0xC3B1, which has all of them */
enum { SP_CACHE_I, SP_CACHE_K, SP_CACHE_V, SP_CACHE_1, SP_CACHES_ABOVE };

/* A cached piece of memory, of 1 KiB: lines have 128 bytes, and a driver cannot know which lines
 * are fetched together. Agents see `now`, the CPU sees `mem`. dirty[i] has a bit for each byte of
 * dword i that agents have written since the last write-back. Hardware has byte masks too. */
struct sp_l2_grain {
    uint64_t line; /* its number in the machine's memory, which is never reused */
    struct sp_l2_grain *chain, *next_written;
    uint8_t *mem;
    uint32_t epoch; /* if older than the cache's: clean bytes must be fetched again */
    uint32_t written;
    uint32_t remote; /* the memory is at the other end of the bus of a card with VRAM */
    uint8_t dirty[SP_VM_GRAIN / 4];
    uint8_t now[SP_VM_GRAIN] __attribute__((aligned(64)));
};

struct sp_l2;
struct sp_l2 *sp_l2_new(void);
void sp_l2_free(struct sp_l2 *l2);
/* Call these when a job of the card begins or ends. At its end its effects are in memory: the
 * write-back of the kernel's fence. */
void sp_l2_job_begins(struct sp_l2 *l2);
void sp_l2_job_ends(struct sp_l2 *l2);
/* Returns the piece, fetched if it is absent or invalid. `write`: its bytes will be marked as
 * dirty. NULL: no room; the access goes to memory, as after an eviction. `bus`: kind of traffic
 * over the bus of a card with VRAM, or SP_BUS_NOT. */
struct sp_l2_grain *sp_l2_get(struct sp_l2 *l2, uint64_t line, uint8_t *mem, bool write, uint32_t bus);
/* Counts bytes that went over the bus past the cache. */
void sp_l2_bus(struct sp_l2 *l2, uint32_t bus, uint64_t nbytes);
/* The piece if it is cached, else NULL. */
struct sp_l2_grain *sp_l2_find(struct sp_l2 *l2, uint64_t line);
/* Updates a piece after `nbytes` of its memory were written past the cache; these bytes are
 * clean. */
void sp_l2_take(struct sp_l2 *l2, uint64_t line, const uint8_t *mem, uint32_t at, uint32_t nbytes);
void sp_l2_gcr(struct sp_l2 *l2, uint32_t gcr);
/* Number of card-wide invalidations of a kind of caches above this one. */
uint32_t sp_l2_generation(const struct sp_l2 *l2, uint32_t kind);
/* Forgets memory: of a freed BO, or after a reset. A reset loses dirty bytes only with VRAM:
 * otherwise the running jobs go on. */
void sp_l2_forget(struct sp_l2 *l2, uint64_t first, uint64_t end);
void sp_l2_reset(struct sp_l2 *l2, bool vram_lost);
void sp_l2_counts(struct sp_l2 *l2, struct sp_emu_caches *out);

/* Mask of the bytes of a dword that an access of `nbytes` at `at` touches. */
static inline uint8_t sp_l2_bytes(uint32_t at, uint32_t nbytes, uint32_t dword)
{
    uint32_t first = at > 4 * dword ? at - 4 * dword : 0, end = at + nbytes - 4 * dword;
    return (uint8_t)((end < 4 ? (1u << end) - 1 : 15u) & ~((1u << first) - 1));
}
#endif
