/* The caches that waves read through: vector L0 of a CU, scalar and instruction cache of a WGP, GL1 of a shader array. */
#ifndef SP_EMU_CACHE_UNIT_H
#define SP_EMU_CACHE_UNIT_H
#include "l2.h"

#include "emu/exec.h"

enum { SP_WGPS = 2, SP_CUS = 4 };

/* Copies of pieces, one for each place of the TLB: so the entries that point to a copy go when it does. */
struct sp_copy {
    uint64_t line;
    uint32_t epoch; /* 0: none */
    uint32_t pad[13];
    uint8_t bytes[SP_VM_GRAIN];
};
struct sp_domain {
    uint32_t epoch; /* of copies that are valid; from 1 */
    struct sp_copy *copy[SP_VM_TLB];
};
struct sp_wgp {
    struct sp_domain scalar, code, gl1; /* each WGP is in an array of its own */
};
struct sp_cu {
    struct sp_emu_tlb tlb;
    struct sp_domain l0;
    struct sp_wgp *wgp;
    uint32_t empty; /* its TLB is to be emptied before use */
};
/* What the groups of one host thread run on. */
struct sp_caches {
    uint32_t seen[SP_CACHES_ABOVE]; /* generations of the card */
    struct sp_wgp wgp[SP_WGPS];
    struct sp_cu cu[SP_CUS];
};

/* Of host thread `index`, for a dispatch that begins; NULL: no memory. */
struct sp_caches *sp_caches_begin(struct sp_emu_exec *x, uint32_t index);
void sp_caches_free(struct sp_emu_exec *x);
/* The TLB of the CU that a wave runs on. Groups take turns on WGPs, and in CU mode on the CUs of one; in WGP mode the waves
 * of a group may be on both. */
struct sp_emu_tlb *sp_caches_tlb(struct sp_caches *caches, uint64_t group, uint32_t wave, uint32_t wgp_mode,
                                 const struct sp_emu_view *view, struct sp_emu_fault *fault);

/* Completes an entry, whose `host` is memory: where `access` goes, for `va` itself. */
uint8_t *sp_cache_enter(struct sp_emu_tlb *tlb, struct sp_emu_entry *e, uint64_t va, uint32_t access);
/* What a read by SP_VM_PAST_L0, SP_VM_DEVICE or SP_VM_SCALAR sees at `va`, which is `host` in GL2. What it goes past is
 * evicted (MISS_EVICT of LLVM's SIMemoryLegalizer), lest a plain load see older bytes afterwards. */
const uint8_t *sp_cache_look(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *host, uint32_t access);
/* Invalidates, for a wave: its own L0, scalar cache, instruction cache, GL1. */
void sp_cache_invalidate(struct sp_emu_tlb *tlb, uint32_t gcr);
/* For code.c: the piece of GL2 that an entry is; the entry of an address, NULL: none. */
struct sp_l2_grain *sp_cache_grain(const struct sp_emu_entry *e);
const struct sp_emu_entry *sp_cache_entry(const struct sp_emu_tlb *tlb, uint64_t va);
/* The copy that is valid, or NULL. */
uint8_t *sp_copy_in(const struct sp_domain *d, uint64_t page, uint64_t line);
/* The copy, made of `from` when there is none; `from` itself without memory. */
uint8_t *sp_copy_of(struct sp_domain *d, uint64_t page, uint64_t line, uint8_t *from);
/* Is the word of code at `va`, which sp_emu_at has looked up, older than what it should be? */
struct sp_stale {
    const char *cache, *lacks; /* which cache, and what invalidates it */
    uint64_t va;
    uint32_t held, now;
};
/* The same of data `got` at `va`, which were just read so. */
bool sp_cache_old(const struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access, struct sp_stale *old);
bool sp_cache_code(struct sp_emu_tlb *tlb, uint64_t va, struct sp_stale *stale);
/* Packets of an IB are read past GL2, but for what agents have written. */
int sp_cache_fetch(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes);
/* An aligned word that was written goes on to memory at once. */
void sp_cache_through(struct sp_emu_tlb *tlb, uint64_t va, uint32_t nbytes);
#endif
