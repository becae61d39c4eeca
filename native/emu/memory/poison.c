/* Poison in memory: which dwords were never written, by their value and the mark of their page. */
#include "vm.h"

uint64_t sp_emu_poison_of(const struct sp_emu_tlb *tlb, uint64_t va, const void *got, size_t nbytes)
{
    for (size_t at = 0; at < nbytes; at += 4) {
        uint32_t dword;
        memcpy(&dword, (const uint8_t *)got + at, sizeof dword);
        if (dword == SP_POISON && sp_emu_marked(tlb, va + at))
            return va + at;
    }
    return SP_NO_POISON;
}

uint64_t sp_emu_poison_in(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, uint32_t access)
{
    for (uint64_t at = va & ~UINT64_C(3); at < va + nbytes; at += 4) {
        const uint8_t *host = sp_emu_seen(tlb, at, access);
        if (host && sp_emu_poison_of(tlb, at, host, 4) != SP_NO_POISON)
            return at;
    }
    return SP_NO_POISON;
}

void sp_emu_poison_put(struct sp_emu_tlb *tlb, uint64_t va)
{
    static const uint32_t poison = SP_POISON;
    uint8_t *mark = sp_emu_at(tlb, va, SP_VM_WRITE) ? sp_emu_mark_of(tlb, va) : NULL;
    if (!mark)
        return;
    /* The page is marked before the bytes are written, because other agents may copy the bytes at
     * once. */
    __atomic_fetch_or(mark, SP_MARK_POISON, __ATOMIC_RELAXED);
    sp_emu_write(tlb, va, &poison, sizeof poison);
}

void sp_emu_poison_copied(struct sp_emu_tlb *tlb, uint64_t to, uint64_t from)
{
    uint8_t *mark = sp_emu_mark_of(tlb, to);
    if (mark && sp_emu_marked(tlb, from))
        __atomic_fetch_or(mark, SP_MARK_POISON, __ATOMIC_RELAXED);
}
