/* The caches above GL2, and the stores of waves. A read copies a whole grain (1 KiB of memory) into
 * a cache. Stores go through to GL2. They also change the copies in the caches of the storing CU
 * and of its shader array. Copies in the caches of other CUs and shader arrays stay unchanged. */
#include "unit.h"

#include <errno.h>
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

static void empty(struct sp_domain *d)
{
    if (++d->epoch == 0) d->epoch = 1;
}

void sp_cache_invalidate(struct sp_emu_tlb *tlb, uint32_t gcr)
{
    struct sp_cu *cu = tlb->cu;
    if (!cu) return;
    if (gcr & SP_GCR_GLV_INV) {
        empty(&cu->l0);
        for (unsigned i = 0; i < SP_VM_TLB / 32; i++)
            for (; tlb->filled[i]; tlb->filled[i] &= tlb->filled[i] - 1)
                tlb->entry[SP_TLB_READ][32 * i + (unsigned)__builtin_ctz(tlb->filled[i])].page = UINT64_MAX;
    }
    if (gcr & SP_GCR_GLK_INV) empty(&cu->wgp->scalar);
    if (gcr & SP_GCR_GLI_INV) empty(&cu->wgp->code);
    if (gcr & SP_GCR_GL1_INV) empty(&cu->wgp->gl1);
}

int sp_cache_fetch(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes)
{
    for (size_t done = 0, n; done < nbytes; done += n) {
        const uint8_t *from = sp_emu_at(tlb, va + done, SP_VM_READ | SP_VM_DEVICE | SP_VM_PACKET);
        uint32_t at = (va + done) % SP_VM_GRAIN;
        n = SP_VM_GRAIN - at < nbytes - done ? SP_VM_GRAIN - at : nbytes - done;
        if (!from) return -EFAULT;
        memcpy((uint8_t *)to + done, from, n);
        const struct sp_emu_entry *e = tlb->l2 ? sp_cache_entry(tlb, va + done) : NULL;
        if (e && e->remote && !e->dirty) sp_l2_bus(tlb->l2, SP_BUS_PACKETS, n);
        for (size_t k = 0; e && e->dirty && k < n; k++)
            if (!(e->dirty[(at + k) / 4] >> (at + k) % 4 & 1)) ((uint8_t *)to)[done + k] = sp_cache_grain(e)->mem[at + k];
    }
    return 0;
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

struct sp_emu_tlb *sp_caches_tlb(struct sp_caches *caches, uint64_t group, uint32_t wave, uint32_t wgp_mode,
                                 const struct sp_emu_view *view, struct sp_emu_fault *fault)
{
    struct sp_cu *cu = &caches->cu[2 * (group % SP_WGPS) + (wgp_mode ? wave : group / SP_WGPS) % 2];
    if (cu->empty) sp_emu_tlb_reset(&cu->tlb, view, fault);
    cu->empty = 0;
    return &cu->tlb;
}

static struct sp_caches *caches_new(void)
{
    struct sp_caches *caches = calloc(1, sizeof *caches);
    for (uint32_t n = 0; caches && n < SP_CUS; n++) {
        struct sp_cu *cu = &caches->cu[n];
        cu->wgp = &caches->wgp[n / 2];
        cu->tlb.cu = cu;
        cu->l0.epoch = cu->wgp->scalar.epoch = cu->wgp->code.epoch = cu->wgp->gl1.epoch = 1;
    }
    return caches;
}

static bool take_generation(struct sp_caches *caches, const struct sp_l2 *l2, uint32_t kind)
{
    uint32_t before = caches->seen[kind];
    caches->seen[kind] = sp_l2_generation(l2, kind);
    return before != caches->seen[kind];
}

struct sp_caches *sp_caches_begin(struct sp_emu_exec *x, uint32_t index)
{
    struct sp_caches **caches = &x->caches[index];
    if (!*caches && !(*caches = caches_new())) return NULL;
    bool scalar = take_generation(*caches, x->tlb.l2, SP_CACHE_K), vector = take_generation(*caches, x->tlb.l2, SP_CACHE_V);
    bool gl1 = take_generation(*caches, x->tlb.l2, SP_CACHE_1), code = take_generation(*caches, x->tlb.l2, SP_CACHE_I);
    for (uint32_t n = 0; n < SP_WGPS; n++) {
        if (scalar) empty(&(*caches)->wgp[n].scalar);
        if (gl1) empty(&(*caches)->wgp[n].gl1);
        if (code) empty(&(*caches)->wgp[n].code);
    }
    for (uint32_t n = 0; n < SP_CUS; n++) {
        struct sp_cu *cu = &(*caches)->cu[n];
        if (vector) empty(&cu->l0);
        cu->tlb.l2 = x->tlb.l2;
        cu->tlb.name_stale = x->tlb.name_stale;
        cu->tlb.watch = x->tlb.watch;
        cu->empty = 1;
    }
    return *caches;
}

static void domain_free(struct sp_domain *d)
{
    for (uint32_t i = 0; i < SP_VM_TLB; i++) free(d->copy[i]);
}

void sp_caches_free(struct sp_emu_exec *x)
{
    for (uint32_t k = 0; k < SP_EXEC_THREADS; k++) {
        struct sp_caches *caches = x->caches[k];
        for (uint32_t n = 0; caches && n < SP_CUS; n++) domain_free(&caches->cu[n].l0);
        for (uint32_t n = 0; caches && n < SP_WGPS; n++) {
            domain_free(&caches->wgp[n].scalar);
            domain_free(&caches->wgp[n].code);
            domain_free(&caches->wgp[n].gl1);
        }
        free(caches);
    }
}
