/* The caches that waves read through: a CU's vector L0, a WGP's scalar and instruction cache, a
 * shader array's GL1. */
#ifndef SP_EMU_CACHE_UNIT_H
#define SP_EMU_CACHE_UNIT_H
#include "l2.h"

#include "emu/exec.h"

enum { SP_WGPS = 2, SP_CUS = 4 };

/* A copy of a piece of memory (SP_VM_GRAIN bytes) in a cache. There is one copy for each entry of
 * the TLB, so that a copy and the entry that points to it are replaced together. */
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
struct sp_wgp {
    /* each WGP has a GL1 of its own, as if it were in a separate shader array */
    struct sp_domain scalar, code, gl1;
};
struct sp_cu {
    struct sp_emu_tlb tlb;
    struct sp_domain l0;
    struct sp_wgp *wgp;
    uint32_t empty; /* 1: the CU's TLB must be emptied before use */
};
/* The caches for the groups of one host thread. */
struct sp_caches {
    /* number of card-wide invalidations of each kind that these caches have carried out */
    uint32_t seen[SP_CACHES_ABOVE];
    struct sp_wgp wgp[SP_WGPS];
    struct sp_cu cu[SP_CUS];
};

/* Prepares the caches of host thread `index` at the beginning of a dispatch. Returns NULL if memory
 * is short. */
struct sp_caches *sp_caches_begin(struct sp_emu_exec *x, uint32_t index);
void sp_caches_free(struct sp_emu_exec *x);
/* Returns the TLB of the CU that runs a wave. Groups rotate over the WGPs, and in CU mode over the
 * CUs of a WGP. In WGP mode the waves of a group rotate over both CUs. */
struct sp_emu_tlb *sp_caches_tlb(struct sp_caches *caches, uint64_t group, uint32_t wave, uint32_t wgp_mode,
                                 const struct sp_emu_view *view, struct sp_emu_fault *fault);

/* Completes a TLB entry whose `host` is an address in memory: makes it point to the caches. Returns
 * the host address for `access` at `va`. */
uint8_t *sp_cache_enter(struct sp_emu_tlb *tlb, struct sp_emu_entry *e, uint64_t va, uint32_t access);
/* Returns the bytes that a read with SP_VM_PAST_L0, SP_VM_DEVICE or SP_VM_SCALAR sees at `va`.
 * `host` is the place of these bytes in GL2. Copies in the bypassed caches are evicted (MISS_EVICT
 * of LLVM's SIMemoryLegalizer), so that no later plain load sees older bytes. */
const uint8_t *sp_cache_look(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *host, uint32_t access);
/* Invalidates those caches of one wave that `gcr` names: L0, scalar cache, instruction cache,
 * GL1. */
void sp_cache_invalidate(struct sp_emu_tlb *tlb, uint32_t gcr);
/* For code.c: sp_cache_grain returns the piece of memory in GL2 that the TLB entry `e` points to.
 * sp_cache_entry returns the TLB entry of an address, or NULL. */
struct sp_l2_grain *sp_cache_grain(const struct sp_emu_entry *e);
const struct sp_emu_entry *sp_cache_entry(const struct sp_emu_tlb *tlb, uint64_t va);
/* Returns the valid copy, in the cache `d`, of the piece of memory with number `line`, or NULL. */
uint8_t *sp_copy_in(const struct sp_domain *d, uint64_t page, uint64_t line);
/* Returns the copy, in the cache `d`, of the piece of memory with number `line`. If there is none,
 * makes it from the bytes at `from`. Returns `from` itself if memory is short. */
uint8_t *sp_copy_of(struct sp_domain *d, uint64_t page, uint64_t line, uint8_t *from);
/* A stale read, as a fault describes it. */
struct sp_stale {
    /* name of the cache with the old bytes, and of the missing invalidation */
    const char *cache, *lacks;
    uint64_t va;
    uint32_t held, now;
};
/* sp_cache_old checks the bytes `got` that were just read at `va`. sp_cache_code checks the word of
 * code at `va`, after sp_emu_at has looked it up. Both return true and fill the struct sp_stale if
 * the bytes are stale. */
bool sp_cache_old(const struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access, struct sp_stale *old);
bool sp_cache_code(struct sp_emu_tlb *tlb, uint64_t va, struct sp_stale *stale);
/* Reads packets of an IB from memory. Bytes that agents have written come from GL2. */
int sp_cache_fetch(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes);
/* Writes an aligned word that was just stored in GL2 through to memory. */
void sp_cache_through(struct sp_emu_tlb *tlb, uint64_t va, uint32_t nbytes);
#endif
