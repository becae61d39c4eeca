/* The caches of one host thread, which stand for two WGPs: made, begun for a dispatch, and given to
 * waves. */
#include "caches.h"

#include <stdlib.h>

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

struct sp_caches *sp_caches_begin(struct sp_caches **caches, const struct sp_emu_tlb *tlb)
{
    if (!*caches && !(*caches = caches_new())) return NULL;
    bool scalar = take_generation(*caches, tlb->l2, SP_CACHE_K), vector = take_generation(*caches, tlb->l2, SP_CACHE_V);
    bool gl1 = take_generation(*caches, tlb->l2, SP_CACHE_1), code = take_generation(*caches, tlb->l2, SP_CACHE_I);
    for (uint32_t n = 0; n < SP_WGPS; n++) {
        if (scalar) sp_domain_empty(&(*caches)->wgp[n].scalar);
        if (gl1) sp_domain_empty(&(*caches)->wgp[n].gl1);
        if (code) sp_domain_empty(&(*caches)->wgp[n].code);
    }
    for (uint32_t n = 0; n < SP_CUS; n++) {
        struct sp_cu *cu = &(*caches)->cu[n];
        if (vector) sp_domain_empty(&cu->l0);
        cu->tlb.l2 = tlb->l2;
        cu->tlb.name_stale = tlb->name_stale;
        cu->tlb.watch = tlb->watch;
        cu->empty = 1;
    }
    return *caches;
}

static void domain_free(struct sp_domain *d)
{
    for (uint32_t i = 0; i < SP_VM_TLB; i++) free(d->copy[i]);
}

void sp_caches_free(struct sp_caches *caches)
{
    for (uint32_t n = 0; caches && n < SP_CUS; n++) domain_free(&caches->cu[n].l0);
    for (uint32_t n = 0; caches && n < SP_WGPS; n++) {
        domain_free(&caches->wgp[n].scalar);
        domain_free(&caches->wgp[n].code);
        domain_free(&caches->wgp[n].gl1);
    }
    free(caches);
}
