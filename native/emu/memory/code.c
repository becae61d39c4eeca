/* Finds stale code: compares each decoded word of code with the contents of the instruction cache,
 * GL2 and memory. Stale code is never run: it is a fault. */
#include "unit.h"

static bool differs(const uint8_t *held, const uint8_t *now, struct sp_stale *stale)
{
    memcpy(&stale->held, held, 4);
    memcpy(&stale->now, now, 4);
    return stale->held != stale->now;
}

bool sp_cache_code(struct sp_emu_tlb *tlb, uint64_t va, struct sp_stale *stale)
{
    const struct sp_emu_entry *e = tlb->l2 && tlb->cu ? sp_cache_entry(tlb, va) : NULL;
    uint32_t at = va % SP_VM_GRAIN;
    if (!e || !e->dirty) return false;
    stale->cache = "the instruction cache";
    stale->lacks = "GLI_INV";
    if (differs(sp_copy_of(&tlb->cu->wgp->code, e->page, e->line, e->host) + at, e->host + at, stale)) return true;
    stale->cache = "GL2";
    stale->lacks = "GL2_INV";
    return !e->dirty[at / 4] && differs(e->host + at, sp_cache_grain(e)->mem + at, stale);
}
