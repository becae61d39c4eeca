/* The caches above GL2, and the stores of waves. A read copies a whole grain (1 KiB of memory) into
 * a cache. Stores go through to GL2. They also change the copies in the caches of the storing CU
 * and of its shader array. Copies in the caches of other CUs and shader arrays stay unchanged. */
#include "unit.h"

#include <stdlib.h>

struct sp_l2_grain *sp_cache_grain(const struct sp_emu_entry *e)
{
    return (struct sp_l2_grain *)(void *)(e->dirty - offsetof(struct sp_l2_grain, dirty));
}

uint8_t *sp_copy_in(const struct sp_domain *d, uint64_t page, uint64_t line)
{
    struct sp_copy *copy = d->copy[page % SP_VM_TLB];
    return copy && copy->epoch == d->epoch && copy->line == line ? copy->bytes : NULL;
}

uint8_t *sp_copy_of(struct sp_domain *d, uint64_t page, uint64_t line, uint8_t *from)
{
    struct sp_copy **copy = &d->copy[page % SP_VM_TLB];
    uint8_t *there = sp_copy_in(d, page, line);
    if (there) return there;
    if (!*copy && !(*copy = aligned_alloc(64, sizeof **copy))) return from;
    (*copy)->line = line;
    (*copy)->epoch = d->epoch;
    size_t nbytes = SP_VM_GRAIN;
    /* Hides the constant from the compiler, so that the compiler calls the library's memcpy instead
     * of inlining the copy. The library's memcpy uses wide registers. */
    __asm__("" : "+r"(nbytes));
    memcpy((*copy)->bytes, from, nbytes);
    return (*copy)->bytes;
}

static uint8_t *past_l0(struct sp_cu *cu, uint64_t page, uint64_t line, uint8_t *l2)
{
    return sp_copy_of(&cu->wgp->gl1, page, line, l2);
}

static uint32_t traffic(uint32_t access)
{
    if (access & SP_VM_EXECUTE) return SP_BUS_CODE;
    if (access & SP_VM_SCALAR) return SP_BUS_SCALAR;
    return access & SP_VM_PACKET ? SP_BUS_PACKETS : SP_BUS_DATA;
}

uint8_t *sp_cache_enter(struct sp_emu_tlb *tlb, struct sp_emu_entry *e, uint64_t va, uint32_t access)
{
    bool write = access & SP_VM_WRITE;
    struct sp_l2_grain *grain = NULL;
    if (!tlb->write_around)
        grain = sp_l2_get(tlb->l2, e->line, e->host, write, e->remote ? traffic(access) : SP_BUS_NOT);
    else if (!write)
        grain = sp_l2_find(tlb->l2, e->line);
    if (tlb->write_around && e->remote && !grain && !(access & SP_VM_PACKET))
        sp_l2_bus(tlb->l2, write ? SP_BUS_WRITTEN : SP_BUS_DATA, SP_VM_GRAIN);
    /* SDMA has write_around: its reads do not fill GL2. This TLB entry gets no right to read, so
     * that each later read searches GL2 again, which may hold the bytes by then. */
    if (tlb->write_around) e->rights = write ? SP_VM_WRITE : 0;
    if (grain) {
        e->dirty = grain->dirty;
        e->host = grain->now;
        e->rights &= write ? ~0u : ~(uint32_t)SP_VM_WRITE;
    }
    if (grain && tlb->cu && access == SP_VM_READ) {
        uint8_t *l0 = sp_copy_in(&tlb->cu->l0, e->page, e->line);
        e->host = l0 ? l0 : sp_copy_of(&tlb->cu->l0, e->page, e->line, past_l0(tlb->cu, e->page, e->line, grain->now));
    }
    return e->host + va % SP_VM_GRAIN;
}

const struct sp_emu_entry *sp_cache_entry(const struct sp_emu_tlb *tlb, uint64_t va)
{
    const struct sp_emu_entry *e = &tlb->entry[SP_TLB_L2][(va >> SP_VM_GRAIN_BITS) % SP_VM_TLB];
    return e->page == (va >> SP_VM_GRAIN_BITS) ? e : NULL;
}

static void evict(struct sp_domain *d, uint64_t page, uint64_t line)
{
    if (sp_copy_in(d, page, line)) d->copy[page % SP_VM_TLB]->epoch = 0;
}

const uint8_t *sp_cache_look(struct sp_emu_tlb *tlb, uint64_t va, const uint8_t *host, uint32_t access)
{
    const struct sp_emu_entry *e = sp_cache_entry(tlb, va);
    uint64_t page = va >> SP_VM_GRAIN_BITS;
    if (!e || !e->dirty || !tlb->cu) return host;
    struct sp_wgp *wgp = tlb->cu->wgp;
    if (!(access & SP_VM_SCALAR)) {
        evict(&tlb->cu->l0, page, e->line);
        tlb->entry[SP_TLB_READ][page % SP_VM_TLB].page = UINT64_MAX;
    }
    if (access & SP_VM_DEVICE) {
        evict(&wgp->gl1, page, e->line);
        return host;
    }
    const uint8_t *scalar = access & SP_VM_SCALAR ? sp_copy_in(&wgp->scalar, page, e->line) : NULL;
    uint8_t *gl1 = scalar ? NULL : past_l0(tlb->cu, page, e->line, e->host);
    if (!scalar) scalar = access & SP_VM_SCALAR ? sp_copy_of(&wgp->scalar, page, e->line, gl1) : gl1;
    return scalar + va % SP_VM_GRAIN;
}

static void mark(const struct sp_emu_entry *e, uint32_t at, uint32_t nbytes)
{
    if ((at | nbytes) % 4 == 0) {
        for (uint32_t i = at / 4; i < (at + nbytes) / 4; i++) __atomic_store_n(&e->dirty[i], 15, __ATOMIC_RELEASE);
        return;
    }
    for (uint32_t i = at / 4; i < (at + nbytes + 3) / 4; i++)
        __atomic_fetch_or(&e->dirty[i], sp_l2_bytes(at, nbytes, i), __ATOMIC_ACQ_REL);
}

void sp_cache_writes(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes)
{
    const struct sp_emu_entry *e = sp_cache_entry(tlb, va);
    if (e && e->dirty) mark(e, va % SP_VM_GRAIN, (uint32_t)nbytes);
}

void sp_cache_wrote(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes)
{
    const struct sp_emu_entry *e = sp_cache_entry(tlb, va);
    uint32_t at = va % SP_VM_GRAIN;
    if (!e) return;
    if (tlb->write_around && e->line) sp_l2_take(tlb->l2, e->line, e->host, at, (uint32_t)nbytes);
    if (!e->dirty) return;
    mark(e, at, (uint32_t)nbytes);
    if (!tlb->cu) return;
    uint8_t *l0 = sp_copy_in(&tlb->cu->l0, e->page, e->line), *gl1 = sp_copy_in(&tlb->cu->wgp->gl1, e->page, e->line);
    if (l0) memcpy(l0 + at, e->host + at, nbytes);
    if (gl1) memcpy(gl1 + at, e->host + at, nbytes);
}

void sp_cache_invalidate(struct sp_emu_tlb *tlb, uint32_t gcr)
{
    struct sp_cu *cu = tlb->cu;
    if (!cu) return;
    if (gcr & SP_GCR_GLV_INV) {
        sp_domain_empty(&cu->l0);
        for (unsigned i = 0; i < SP_VM_TLB / 32; i++)
            for (; tlb->filled[i]; tlb->filled[i] &= tlb->filled[i] - 1)
                tlb->entry[SP_TLB_READ][32 * i + (unsigned)__builtin_ctz(tlb->filled[i])].page = UINT64_MAX;
    }
    if (gcr & SP_GCR_GLK_INV) sp_domain_empty(&cu->wgp->scalar);
    if (gcr & SP_GCR_GLI_INV) sp_domain_empty(&cu->wgp->code);
    if (gcr & SP_GCR_GL1_INV) sp_domain_empty(&cu->wgp->gl1);
}

void sp_cache_through(struct sp_emu_tlb *tlb, uint64_t va, uint32_t nbytes)
{
    const struct sp_emu_entry *e = tlb->l2 ? sp_cache_entry(tlb, va) : NULL;
    uint32_t at = va % SP_VM_GRAIN;
    if (!e || !e->dirty) return;
    uint8_t *mem = sp_cache_grain(e)->mem + at;
    if (nbytes == 8)
        __atomic_store_n((uint64_t *)(void *)mem, *(const uint64_t *)(const void *)(e->host + at), __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)(void *)mem, *(const uint32_t *)(const void *)(e->host + at), __ATOMIC_RELEASE);
    for (uint32_t i = at / 4; i < (at + nbytes) / 4; i++) __atomic_store_n(&e->dirty[i], 0, __ATOMIC_RELEASE);
}
