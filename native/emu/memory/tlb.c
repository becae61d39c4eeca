/* Fills the TLB from the page tables, and checks the rights of a page. An entry stays valid until the
 * job ends, because the job holds a reference to its address space and so to each of its BOs. */
#include "unit.h"

#include <errno.h>

static const uint8_t zeros[SP_VM_PAGE]; /* contents of a PRT page */
static uint8_t discarded[SP_VM_PAGE];   /* target of all writes to PRT pages; never read */

static struct sp_emu_entry *entry_of(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    return &tlb->entry[access == SP_VM_READ ? SP_TLB_READ : SP_TLB_L2][(va >> tlb->bits) % SP_VM_TLB];
}

void sp_emu_tlb_reset(struct sp_emu_tlb *tlb, const struct sp_emu_view *view, struct sp_emu_fault *fault)
{
    tlb->bits = tlb->l2 ? SP_VM_GRAIN_BITS : SP_VM_PAGE_BITS;
    tlb->view = view;
    tlb->fault = fault;
    for (unsigned i = 0; i < SP_TLBS * SP_VM_TLB; i++)
        tlb->entry[i / SP_VM_TLB][i % SP_VM_TLB].page = UINT64_MAX;
}

static const char *names_of(uint32_t access)
{
    static const char *const name[8] = {"nothing", "read",    "write",        "read+write",
                                        "execute", "execute", "write+execute", "all"};
    return name[access & 7];
}

uint8_t *sp_emu_tlb_miss(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    struct sp_emu_fault *fault = tlb->fault;
    bool first = fault->kind == SP_FAULT_NONE;
    struct sp_emu_page page;
    int rc = tlb->view->find(tlb->view, va, &page, fault);
    if (rc == 0 && (page.rights & access & SP_VM_RIGHTS) == (access & SP_VM_RIGHTS)) {
        /* a PRT page is not cached in the TLB, because reads and writes go to different places */
        if (!page.host)
            return (access & SP_VM_WRITE ? discarded : (uint8_t *)(uintptr_t)zeros) + va % SP_VM_PAGE;
        struct sp_emu_entry *e = entry_of(tlb, va, access);
        uint64_t begin = va % SP_VM_PAGE - sp_emu_in(tlb, va); /* of the entry's bytes in the page */
        if (page.mark && access & SP_VM_WRITE)
            __atomic_fetch_or(page.mark, SP_MARK_AGENT, __ATOMIC_RELAXED);
        uint32_t slot = (va >> tlb->bits) % SP_VM_TLB;
        tlb->filled[slot / 32] |= 1u << slot % 32;
        *e = (struct sp_emu_entry){va >> tlb->bits, page.host + begin, NULL, page.mark, (page.place + begin) >> tlb->bits,
                                   page.rights | SP_VM_DEVICE | SP_VM_SCALAR | SP_VM_PACKET, tlb->l2 && !page.uncached, page.remote};
        return e->cached ? sp_cache_enter(tlb, e, va, access) : e->host + sp_emu_in(tlb, va);
    }
    if (rc == 0)
        sp_emu_fault_set(fault, SP_FAULT_RIGHTS, -EFAULT, "%s at 0x%llx, whose page allows %s", names_of(access),
                         (unsigned long long)va, names_of(page.rights));
    if (first) {
        fault->va = va;
        fault->access = access;
    }
    return NULL;
}

void sp_emu_note(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes, enum sp_touch touch)
{
    const struct sp_emu_entry *e = sp_emu_entry_of(tlb, va);
    if (e && e->cached)
        sp_order_note(tlb->watch, e->line, va, nbytes, touch);
}

static bool look_up(const struct sp_emu_tlb *tlb, uint64_t va, struct sp_emu_page *page)
{
    struct sp_emu_fault unused = {.kind = SP_FAULT_NONE};
    return tlb->view->find(tlb->view, va, page, &unused) == 0;
}

int sp_emu_by_cpu(const struct sp_emu_tlb *tlb, uint64_t va)
{
    struct sp_emu_page page;
    if (!look_up(tlb, va, &page) || !page.mark || !page.in_vram || !page.has_bus)
        return 0;
    return !(__atomic_load_n(page.mark, __ATOMIC_RELAXED) & SP_MARK_AGENT);
}

int sp_emu_in_vram(const struct sp_emu_tlb *tlb, uint64_t va)
{
    struct sp_emu_page page;
    return look_up(tlb, va, &page) && page.in_vram;
}
