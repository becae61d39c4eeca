/* GL2, the last cache before memory. The agents of a card (waves, command processor, SDMA) access
 * memory through GL2, unless the memory is mapped UC. */
#ifndef SP_EMU_MEMORY_L2_H
#define SP_EMU_MEMORY_L2_H
#include "vm.h"

#include <stdbool.h>

/* Bits for cache actions. A packet's field GCR_CNTL or an instruction of a wave asks for them. */
enum { SP_GCR_GLI_INV = 1, SP_GCR_GLK_INV = 2, SP_GCR_GLV_INV = 4, SP_GCR_GL1_INV = 8, SP_GCR_GL2_INV = 16, SP_GCR_GL2_WB = 32,
       /* For EMIT_MEM_SYNC, the kernel driver emits GCR_CNTL 0xC3B1, which has all six cache
        * actions. */
       SP_GCR_MEM_SYNC = 63 };
enum { SP_CACHE_I, SP_CACHE_K, SP_CACHE_V, SP_CACHE_1, SP_CACHES_ABOVE };

/* A grain: 1 KiB of memory, as GL2 caches it. A line of the real GL2 has 128 bytes, but a driver
 * cannot know which lines the card fetches together. Agents see the bytes `now`, the CPU sees
 * `mem`. dirty[i] has a bit for each byte of dword i that agents have written since the last
 * write-back. Hardware has byte masks too. */
struct sp_l2_grain {
    uint64_t line; /* number of the grain (1 KiB of the machine's memory); never reused */
    struct sp_l2_grain *chain, *next_written;
    uint8_t *mem;
    uint32_t epoch; /* if older than GL2's epoch, the grain's clean bytes must be fetched again */
    uint32_t written;
    /* 1: the grain is in host memory, which a card with VRAM reaches over its bus */
    uint32_t remote;
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
/* Returns the cached grain with number `line`. Fetches it from `mem` if it is absent or invalid.
 * `write`: the caller will mark bytes of the grain as dirty. `bus` says what to count the fetch as
 * (SP_BUS_*); SP_BUS_NOT: it does not cross the card's bus. Returns NULL if the cache is full: the
 * access then goes to memory, as after an eviction. */
struct sp_l2_grain *sp_l2_get(struct sp_l2 *l2, uint64_t line, uint8_t *mem, bool write, uint32_t bus);
/* Counts bytes that went over the bus without passing through GL2. */
void sp_l2_bus(struct sp_l2 *l2, uint32_t bus, uint64_t nbytes);
/* Returns the grain (1 KiB of memory) with number `line` if GL2 has it, else NULL. */
struct sp_l2_grain *sp_l2_find(struct sp_l2 *l2, uint64_t line);
/* If GL2 has grain `line`: copies `nbytes` at offset `at` from `mem` to it, and marks them as
 * clean. Call this after these bytes of memory were written without passing through GL2. */
void sp_l2_take(struct sp_l2 *l2, uint64_t line, const uint8_t *mem, uint32_t at, uint32_t nbytes);
void sp_l2_gcr(struct sp_l2 *l2, uint32_t gcr);
/* Returns how many times all caches of one kind above GL2 (`kind`: SP_CACHE_*) were invalidated
 * together, on the whole card. */
uint32_t sp_l2_generation(const struct sp_l2 *l2, uint32_t kind);
/* sp_l2_forget drops the grains `first` to `end` - 1, which were memory of a freed BO. sp_l2_reset
 * does what a reset of the card does to GL2. If VRAM is lost, dirty bytes are lost too. Otherwise
 * they are written back, because running jobs go on after such a reset. */
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
