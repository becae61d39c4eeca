/* The caches that waves read through: a CU's vector L0, a WGP's scalar and instruction cache, a
 * shader array's GL1. */
#ifndef SP_EMU_CACHE_UNIT_H
#define SP_EMU_CACHE_UNIT_H
#include "l2.h"

#include "emu/exec.h"

enum { SP_WGPS = 2, SP_CUS = 4 };

/* Copies of pieces, one for each place of the TLB, so that the entries that point to a copy are
 * replaced together with it. */
struct sp_copy {
    uint64_t line;
    uint32_t epoch; /* 0: empty */
    uint32_t pad[13];
    uint8_t bytes[SP_VM_GRAIN];
};
struct sp_domain {
    uint32_t epoch; /* of valid copies; from 1 */
    struct sp_copy *copy[SP_VM_TLB];
};
struct sp_wgp {
    struct sp_domain scalar, code, gl1; /* each WGP is in a separate array */
};
struct sp_cu {
    struct sp_emu_tlb tlb;
    struct sp_domain l0;
    struct sp_wgp *wgp;
    uint32_t empty; /* its TLB must be emptied before use */
};
/* The caches for the groups of one host thread. */
struct sp_caches {
    uint32_t seen[SP_CACHES_ABOVE]; /* generations of the card that were applied */
    struct sp_wgp wgp[SP_WGPS];
    struct sp_cu cu[SP_CUS];
};

/* The caches of host thread `index`, at the beginning of a dispatch; NULL: out of memory. */
struct sp_caches *sp_caches_begin(struct sp_emu_exec *x, uint32_t index);
void sp_caches_free(struct sp_emu_exec *x);
/* The TLB of the CU that runs a wave. Groups rotate over WGPs, and in CU mode over the CUs of a
 * WGP. In WGP mode a group's waves may be on both CUs. */
struct sp_emu_tlb *sp_caches_tlb(struct sp_caches *caches, uint64_t group, uint32_t wave, uint32_t wgp_mode,
                                 const struct sp_emu_view *view, struct sp_emu_fault *fault);

/* Completes an entry whose `host` is memory. Returns the address for `access` at `va`. */
uint8_t *sp_cache_enter(struct sp_emu_tlb *tlb, struct sp_emu_entry *e, uint64_t va, uint32_t access);
/* The bytes that a read with SP_VM_PAST_L0, SP_VM_DEVICE or SP_VM_SCALAR sees at `va`; `host`: its
 * place in GL2. Copies in the bypassed caches are evicted (MISS_EVICT of LLVM's SIMemoryLegalizer).
 * Otherwise a later plain load would see older bytes. */
const uint8_t *sp_cache_look(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *host, uint32_t access);
/* Invalidates caches of one wave: its own L0, scalar cache, instruction cache, GL1. */
void sp_cache_invalidate(struct sp_emu_tlb *tlb, uint32_t gcr);
/* For code.c: an entry's piece of GL2; and an address's entry (NULL: none). */
struct sp_l2_grain *sp_cache_grain(const struct sp_emu_entry *e);
const struct sp_emu_entry *sp_cache_entry(const struct sp_emu_tlb *tlb, uint64_t va);
/* The valid copy, or NULL. */
uint8_t *sp_copy_in(const struct sp_domain *d, uint64_t page, uint64_t line);
/* The copy, made from `from` if it is absent; `from` itself if memory is short. */
uint8_t *sp_copy_of(struct sp_domain *d, uint64_t page, uint64_t line, uint8_t *from);
/* 1 if the word of code at `va`, which sp_emu_at has looked up, is stale. */
struct sp_stale {
    const char *cache, *lacks; /* the cache, and its missing invalidation */
    uint64_t va;
    uint32_t held, now;
};
/* As above, for data `got` that were just read at `va`. */
bool sp_cache_old(const struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access, struct sp_stale *old);
bool sp_cache_code(struct sp_emu_tlb *tlb, uint64_t va, struct sp_stale *stale);
/* Reads packets of an IB past GL2, except bytes that agents have written. */
int sp_cache_fetch(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes);
/* Writes an aligned word, just written, through to memory. */
void sp_cache_through(struct sp_emu_tlb *tlb, uint64_t va, uint32_t nbytes);
#endif
