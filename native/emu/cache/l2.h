/* GL2, the last cache before memory. The agents of a card (waves, command processor, SDMA) access
 * memory through GL2, unless the memory is mapped UC. */
#ifndef SP_EMU_CACHE_L2_H
#define SP_EMU_CACHE_L2_H
#include "emu/vm.h"

#include <stdbool.h>

/* Cache actions of a GCR_CNTL or of a wave's instruction. */
enum { SP_GCR_GLI_INV = 1, SP_GCR_GLK_INV = 2, SP_GCR_GLV_INV = 4, SP_GCR_GL1_INV = 8, SP_GCR_GL2_INV = 16, SP_GCR_GL2_WB = 32,
       /* For EMIT_MEM_SYNC, the kernel driver emits GCR_CNTL 0xC3B1, which has all six cache
        * actions. */
       SP_GCR_MEM_SYNC = 63 };
enum { SP_CACHE_I, SP_CACHE_K, SP_CACHE_V, SP_CACHE_1, SP_CACHES_ABOVE };

/* A cached piece of memory, 1 KiB long. A line of the real GL2 has 128 bytes, but a driver cannot
 * know which lines the card fetches together. Agents see `now`, the CPU sees `mem`. dirty[i] has a
 * bit for each byte of dword i that agents have written since the last write-back. Hardware has
 * byte masks too. */
struct sp_l2_grain {
    uint64_t line; /* number of this 1 KiB of the machine's memory; a number is never reused */
    struct sp_l2_grain *chain, *next_written;
    uint8_t *mem;
    uint32_t epoch; /* clean bytes must be fetched again if this is older than the epoch of GL2 */
    uint32_t written;
    uint32_t remote; /* 1: host memory, which a card with VRAM reaches over its bus */
    uint8_t dirty[SP_VM_GRAIN / 4];
    uint8_t now[SP_VM_GRAIN] __attribute__((aligned(64)));
};

struct sp_l2;
struct sp_l2 *sp_l2_new(void);
void sp_l2_free(struct sp_l2 *l2);
/* Call sp_l2_job_begins and sp_l2_job_ends when a job of the card begins or ends. The end writes
 * GL2 back, as the kernel driver's fence packet does. */
void sp_l2_job_begins(struct sp_l2 *l2);
void sp_l2_job_ends(struct sp_l2 *l2);
/* Returns the cached piece of memory with number `line`, fetched if it is absent or invalid.
 * `write`: the caller will mark bytes of the piece as dirty. NULL: no room, so the access goes to
 * memory, as after an eviction. `bus`: the kind of traffic over the bus of a card with VRAM, or
 * SP_BUS_NOT. */
struct sp_l2_grain *sp_l2_get(struct sp_l2 *l2, uint64_t line, uint8_t *mem, bool write, uint32_t bus);
/* Counts bytes that went over the bus without passing through GL2. */
void sp_l2_bus(struct sp_l2 *l2, uint32_t bus, uint64_t nbytes);
/* Returns the piece of memory with number `line` if it is cached, else NULL. */
struct sp_l2_grain *sp_l2_find(struct sp_l2 *l2, uint64_t line);
/* Updates a cached piece after `nbytes` of its memory were written without passing through GL2.
 * These bytes are clean. */
void sp_l2_take(struct sp_l2 *l2, uint64_t line, const uint8_t *mem, uint32_t at, uint32_t nbytes);
void sp_l2_gcr(struct sp_l2 *l2, uint32_t gcr);
/* Returns how often all caches of one kind above GL2 were invalidated on the whole card. */
uint32_t sp_l2_generation(const struct sp_l2 *l2, uint32_t kind);
/* sp_l2_forget drops the cached pieces of a freed BO, whose numbers are `first` to `end` - 1.
 * sp_l2_reset does what a reset of the card does to GL2. If VRAM is lost, dirty bytes are lost too.
 * Otherwise they are written back, because running jobs go on after such a reset. */
void sp_l2_forget(struct sp_l2 *l2, uint64_t first, uint64_t end);
void sp_l2_reset(struct sp_l2 *l2, bool vram_lost);
void sp_l2_counts(struct sp_l2 *l2, struct sp_emu_caches *out);

/* Returns the mask of the bytes of `dword` that an access of `nbytes` at offset `at` touches. */
static inline uint8_t sp_l2_bytes(uint32_t at, uint32_t nbytes, uint32_t dword)
{
    uint32_t first = at > 4 * dword ? at - 4 * dword : 0, end = at + nbytes - 4 * dword;
    return (uint8_t)((end < 4 ? (1u << end) - 1 : 15u) & ~((1u << first) - 1));
}
#endif
