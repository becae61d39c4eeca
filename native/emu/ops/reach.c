/* Looks up the page of an access, for the lanes that follow on it. */
#include "reach.h"

uint8_t *sp_reach_turn(struct sp_reach *r, uint64_t va, uint32_t nbytes)
{
    struct sp_emu_tlb *tlb = r->w->tlb;
    uint64_t in = va & r->mask;
    if (in + nbytes > r->mask + 1) return NULL;
    bool write = r->access & SP_VM_WRITE;
    uint8_t *host = write ? sp_emu_at(tlb, va, r->access) : (uint8_t *)(uintptr_t)sp_emu_seen(tlb, va, r->access);
    if (!host) return NULL;
    if (!write && SP_UNLIKELY(sp_emu_marked(tlb, va))) r->w->poison_seen = 1;
    /* emu/order must see every access. So `r` must not store this page: later accesses would use it
     * directly. */
    if (sp_emu_is_watched(tlb))
        return write || !sp_emu_saw(tlb, va, host, nbytes, r->access) ? host : NULL;
    r->page = va - in;
    r->host = host - in;
    return host;
}
