/* Reports a stale read: names the cache that holds the old bytes, and the missing invalidation. */
#include "unit.h"

#include <errno.h>

static uint32_t first_word(const uint8_t *bytes, size_t nbytes)
{
    uint32_t word = 0;
    memcpy(&word, bytes, nbytes < 4 ? nbytes : 4);
    return word;
}

bool sp_cache_old(const struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access, struct sp_stale *old)
{
    uint64_t page = va >> SP_VM_GRAIN_BITS;
    uint32_t at = va % SP_VM_GRAIN;
    const struct sp_emu_entry *e = &tlb->entry[access == SP_VM_READ ? SP_TLB_READ : SP_TLB_L2][page % SP_VM_TLB];
    if (!tlb->l2 || e->page != page || !e->dirty) return false;
    const struct sp_l2_grain *grain = sp_cache_grain(e);
    for (size_t k = 0; k < nbytes; k++, at++) {
        size_t left = nbytes - k;
        if (got[k] != grain->now[at]) {
            const uint8_t *gl1 = tlb->cu ? sp_copy_in(&tlb->cu->wgp->gl1, page, e->line) : NULL;
            bool scalar = access & SP_VM_SCALAR, in_gl1 = gl1 && gl1[at] != grain->now[at];
            *old = (struct sp_stale){in_gl1 ? "GL1" : scalar ? "the scalar cache" : "the vector L0",
                                     in_gl1 ? "GL1_INV" : scalar ? "GLK_INV" : "GLV_INV", va + k, first_word(got + k, left),
                                     first_word(grain->now + at, left)};
            return true;
        }
        if (!(grain->dirty[at / 4] >> at % 4 & 1) && got[k] != grain->mem[at]) {
            *old = (struct sp_stale){"GL2", "GL2_INV", va + k, first_word(got + k, left), first_word(grain->mem + at, left)};
            return true;
        }
    }
    return false;
}

int sp_cache_check(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *got, size_t nbytes, uint32_t access)
{
    struct sp_stale old;
    if (!sp_cache_old(tlb, va, got, nbytes, access, &old)) return 0;
    if (tlb->fault->kind == SP_FAULT_NONE) {
        tlb->fault->va = old.va;
        tlb->fault->access = SP_VM_READ;
    }
    return sp_emu_fault_set(tlb->fault, SP_FAULT_STALE, -EFAULT,
                            "read at 0x%llx: %s holds 0x%08x, it is 0x%08x by now: expected %s between the two",
                            (unsigned long long)old.va, old.cache, old.held, old.now, old.lacks);
}
