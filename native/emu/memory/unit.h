/* The caches that waves read through: a CU's vector L0, a WGP's scalar and instruction cache, a
 * shader array's GL1. */
#ifndef SP_EMU_MEMORY_UNIT_H
#define SP_EMU_MEMORY_UNIT_H
#include "l2.h"

/* A copy of a grain (SP_VM_GRAIN bytes of memory) in a cache above GL2. There is one copy for each
 * entry of the TLB, so that a copy and the entry that points to it are replaced together. */
struct sp_copy {
    uint64_t line;
    uint32_t epoch; /* epoch of its struct sp_domain when the copy was made; 0: the copy is empty */
    uint32_t pad[13];
    uint8_t bytes[SP_VM_GRAIN];
};
struct sp_domain {
    uint32_t epoch; /* only copies with this epoch are valid; the first epoch is 1 */
    struct sp_copy *copy[SP_VM_TLB];
};
static inline void sp_domain_empty(struct sp_domain *d)
{
    if (++d->epoch == 0) d->epoch = 1;
}
struct sp_wgp {
    /* scalar cache, instruction cache, GL1. The GL1 is not shared, as if each WGP were the only one
     * of its shader array. */
    struct sp_domain scalar, code, gl1;
};
struct sp_cu {
    struct sp_emu_tlb tlb;
    struct sp_domain l0;
    struct sp_wgp *wgp;
    uint32_t empty; /* 1: before its next use, the CU's TLB must be emptied */
};
/* Changes a TLB entry whose `host` is an address in memory: makes `host` point to the cached copy
 * of that memory instead. Returns the host address to use for `access` at `va`. */
uint8_t *sp_cache_enter(struct sp_emu_tlb *tlb, struct sp_emu_entry *e, uint64_t va, uint32_t access);
/* Returns the address of the bytes that a read with SP_VM_PAST_L0, SP_VM_DEVICE or SP_VM_SCALAR
 * sees at `va`. `host` is their address in GL2. Such a read bypasses caches and evicts their
 * copies of these bytes (MISS_EVICT of LLVM's SIMemoryLegalizer). So no later plain load sees
 * older bytes. */
const uint8_t *sp_cache_look(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *host, uint32_t access);
/* Invalidates caches that the waves of this TLB's CU use. Bits of `gcr` (SP_GCR_*) select them: L0,
 * scalar cache, instruction cache, GL1. */
void sp_cache_invalidate(struct sp_emu_tlb *tlb, uint32_t gcr);
/* sp_cache_grain returns the grain of GL2 (1 KiB) to which the TLB entry `e` points. sp_cache_entry
 * returns the TLB entry of an address, or NULL. */
struct sp_l2_grain *sp_cache_grain(const struct sp_emu_entry *e);
const struct sp_emu_entry *sp_cache_entry(const struct sp_emu_tlb *tlb, uint64_t va);
/* Returns the bytes of grain `line` in the cache `d`, or NULL if `d` has no valid copy of it. */
uint8_t *sp_copy_in(const struct sp_domain *d, uint64_t page, uint64_t line);
/* Returns the bytes of grain `line` (1 KiB of memory) in the cache `d`. If `d` has no valid copy,
 * fills one from the bytes at `from`. Returns `from` itself if malloc fails. */
uint8_t *sp_copy_of(struct sp_domain *d, uint64_t page, uint64_t line, uint8_t *from);
/* A stale read, as a fault describes it. */
struct sp_stale {
    /* `cache`: name of the cache that holds the old bytes. `lacks`: the invalidation that the
     * driver has left out. */
    const char *cache, *lacks;
    uint64_t va;
    uint32_t held, now;
};
/* sp_cache_old checks whether the bytes `got`, just read at `va`, are stale. sp_cache_code checks
 * the dword of code at `va`; call sp_emu_at for `va` first. If the bytes are stale, both return
 * true and fill the struct sp_stale. */
bool sp_cache_old(const struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access, struct sp_stale *old);
bool sp_cache_code(struct sp_emu_tlb *tlb, uint64_t va, struct sp_stale *stale);
/* Writes an aligned value of `nbytes` from GL2 to memory. Call it right after storing the value. */
void sp_cache_through(struct sp_emu_tlb *tlb, uint64_t va, uint32_t nbytes);
#endif
