/* GL2, the last cache of a card: what its agents (waves, command processor, SDMA) see of memory that is not mapped UC. */
#ifndef SP_EMU_CACHE_L2_H
#define SP_EMU_CACHE_L2_H
#include "emu/vm.h"

#include <stdbool.h>

/* What a GCR_CNTL, or an instruction of a wave, asks for. */
enum { SP_GCR_GLI_INV = 1, SP_GCR_GLK_INV = 2, SP_GCR_GLV_INV = 4, SP_GCR_GL1_INV = 8, SP_GCR_GL2_INV = 16, SP_GCR_GL2_WB = 32,
       SP_GCR_MEM_SYNC = 63 }; /* what the kernel emits for EMIT_MEM_SYNC: 0xC3B1 has them all */
enum { SP_CACHE_I, SP_CACHE_K, SP_CACHE_V, SP_CACHE_1, SP_CACHES_ABOVE };

/* A piece of memory that it holds, of 1 KiB: lines have 128 bytes, and a driver cannot know which come along. `now` is what
 * agents see, `mem` what the CPU sees. dirty[i]: which bytes of dword i agents have written since the last write-back, a bit
 * each; hardware has byte masks, too. */
struct sp_l2_grain {
    uint64_t line; /* its number in the machine's memory: no other ever has it */
    struct sp_l2_grain *chain, *next_written;
    uint8_t *mem;
    uint32_t epoch; /* older than the cache's: what is not dirty is to be fetched again */
    uint32_t written;
    uint32_t remote; /* memory is at the other end of the bus of a card that has its own */
    uint8_t dirty[SP_VM_GRAIN / 4];
    uint8_t now[SP_VM_GRAIN] __attribute__((aligned(64)));
};

struct sp_l2;
struct sp_l2 *sp_l2_new(void);
void sp_l2_free(struct sp_l2 *l2);
/* A job of the card begins, or ends, whose effects then are in memory: the write-back of the kernel's fence. */
void sp_l2_job_begins(struct sp_l2 *l2);
void sp_l2_job_ends(struct sp_l2 *l2);
/* The piece, fetched when it is not there or invalid; `write` means that its bytes will be marked as dirty. NULL: there is no
 * room, and the access goes to memory, as when the line has been evicted. `bus`: as what it is fetched over the bus of a card
 * that has memory, or SP_BUS_NOT. */
struct sp_l2_grain *sp_l2_get(struct sp_l2 *l2, uint64_t line, uint8_t *mem, bool write, uint32_t bus);
/* Bytes went over the bus past the cache. */
void sp_l2_bus(struct sp_l2 *l2, uint32_t bus, uint64_t nbytes);
/* The piece if it is there. */
struct sp_l2_grain *sp_l2_find(struct sp_l2 *l2, uint64_t line);
/* `nbytes` of a piece have been written past the cache: it takes them over, clean. */
void sp_l2_take(struct sp_l2 *l2, uint64_t line, const uint8_t *mem, uint32_t at, uint32_t nbytes);
void sp_l2_gcr(struct sp_l2 *l2, uint32_t gcr);
/* How often the caches of a kind above this one were invalidated for the whole card. */
uint32_t sp_l2_generation(const struct sp_l2 *l2, uint32_t kind);
/* Memory is gone: a BO freed. A reset: what is dirty is lost only with VRAM, for otherwise the jobs that ran go on. */
void sp_l2_forget(struct sp_l2 *l2, uint64_t first, uint64_t end);
void sp_l2_reset(struct sp_l2 *l2, bool vram_lost);
void sp_l2_counts(struct sp_l2 *l2, struct sp_emu_caches *out);

/* Which bytes of its dword an access of `nbytes` at `at` touches. */
static inline uint8_t sp_l2_bytes(uint32_t at, uint32_t nbytes, uint32_t dword)
{
    uint32_t first = at > 4 * dword ? at - 4 * dword : 0, end = at + nbytes - 4 * dword;
    return (uint8_t)((end < 4 ? (1u << end) - 1 : 15u) & ~((1u << first) - 1));
}
#endif
