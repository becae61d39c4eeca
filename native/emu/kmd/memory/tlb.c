/* Reading a job's address space; space.c makes it. A TLB entry lives as long as its job, which holds the space and, through
 * it, every BO. */
#include "memory.h"

static const uint8_t zeros[SP_VM_PAGE]; /* what a PRT page reads as */
static uint8_t discarded[SP_VM_PAGE];   /* where writes to one go, everybody's; never read */

static bool is_listed(const struct sp_emu_view *view, const struct kmd_bo *bo)
{
    uint32_t low = 0, high = view->listed_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)view->listed[middle] < (uintptr_t)bo)
            low = middle + 1;
        else
            high = middle;
    }
    return low < view->listed_count && view->listed[low] == bo;
}

static const struct kmd_mapping *lookup(const struct sp_emu_view *view, uint64_t va, struct sp_emu_fault *fault)
{
    const struct sp_emu_vm *vm = view->vm;
    uint64_t page = sp_emu_canonical(va) / SP_VM_PAGE;
    uint32_t i = kmd_vm_find(vm, page);
    const struct kmd_mapping *m = i < vm->count ? &vm->map[i] : NULL;
    if (!m || m->first > page || !sp_emu_is_address(va)) {
        if (fault->kind == SP_FAULT_NONE)
            fault->va = va;
        sp_emu_fault_set(fault, SP_FAULT_UNMAPPED, -EFAULT, "no page at 0x%llx", (unsigned long long)va);
        return NULL;
    }
    /* A userptr that no submission lists is never looked at: its pages may be gone. */
    if (m->bo && !m->bo->private_to && (!view->any_bo || m->bo->userptr) && !is_listed(view, m->bo)) {
        if (fault->kind == SP_FAULT_NONE)
            fault->va = va;
        sp_emu_fault_set(fault, SP_FAULT_UNLISTED, -EFAULT,
                         "0x%llx belongs to a BO of %llu bytes, mapped at 0x%llx, which the job does not list",
                         (unsigned long long)va, (unsigned long long)m->bo->nbytes,
                         (unsigned long long)m->first * SP_VM_PAGE);
        return NULL;
    }
    return m;
}

static uint8_t *host_page(const struct kmd_mapping *m, uint64_t va)
{
    return m->bo->host + m->offset + (sp_emu_canonical(va) / SP_VM_PAGE - m->first) * SP_VM_PAGE;
}

void sp_emu_tlb_reset(struct sp_emu_tlb *tlb, const struct sp_emu_view *view, struct sp_emu_fault *fault)
{
    tlb->view = view;
    tlb->fault = fault;
    for (unsigned i = 0; i < SP_VM_TLB; i++)
        tlb->entry[i].page = UINT64_MAX;
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
    const struct kmd_mapping *m = lookup(tlb->view, va, fault);
    if (m && (m->rights & access) == access) {
        if (m->prt) /* not kept: reads and writes go to different places */
            return (access & SP_VM_WRITE ? discarded : (uint8_t *)(uintptr_t)zeros) + va % SP_VM_PAGE;
        uint64_t page = va / SP_VM_PAGE;
        unsigned slot = (unsigned)(page % SP_VM_TLB);
        tlb->entry[slot].page = page;
        tlb->entry[slot].host = host_page(m, va);
        tlb->entry[slot].mark = m->bo->marks ? m->bo->marks + (tlb->entry[slot].host - m->bo->host) / SP_VM_PAGE : NULL;
        tlb->entry[slot].rights = m->rights;
        return tlb->entry[slot].host + va % SP_VM_PAGE;
    }
    if (m)
        sp_emu_fault_set(fault, SP_FAULT_RIGHTS, -EFAULT, "%s at 0x%llx, whose page allows %s", names_of(access),
                         (unsigned long long)va, names_of(m->rights));
    if (first) {
        fault->va = va;
        fault->access = access;
    }
    return NULL;
}

uint64_t sp_emu_poison_in(struct sp_emu_tlb *tlb, uint64_t va, size_t nbytes)
{
    for (uint64_t at = va & ~UINT64_C(3); at < va + nbytes; at += 4) {
        uint32_t dword;
        const uint8_t *host = sp_emu_at(tlb, at, 0);
        if (!host)
            return SP_NO_POISON;
        if (!sp_emu_marked(tlb, at)) {
            at |= SP_VM_PAGE - 4; /* the next page */
            continue;
        }
        memcpy(&dword, host, sizeof dword);
        if (dword == SP_POISON)
            return at;
    }
    return SP_NO_POISON;
}

/* The page was just reached. False: nobody keeps marks of it. */
static bool mark(struct sp_emu_tlb *tlb, uint64_t va)
{
    uint64_t page = va / SP_VM_PAGE;
    unsigned slot = (unsigned)(page % SP_VM_TLB);
    bool kept = tlb->entry[slot].page == page && tlb->entry[slot].mark;
    if (kept)
        __atomic_store_n(tlb->entry[slot].mark, 1, __ATOMIC_RELAXED);
    return kept;
}

void sp_emu_poison_put(struct sp_emu_tlb *tlb, uint64_t va)
{
    static const uint32_t poison = SP_POISON;
    uint8_t *host = sp_emu_at(tlb, va, SP_VM_WRITE);
    if (host && mark(tlb, va))
        memcpy(host, &poison, sizeof poison);
}

void sp_emu_poison_copied(struct sp_emu_tlb *tlb, uint64_t to, uint64_t from)
{
    if (sp_emu_at(tlb, from, 0) && sp_emu_marked(tlb, from) && sp_emu_at(tlb, to, 0))
        mark(tlb, to);
}

int sp_emu_in_vram(const struct sp_emu_tlb *tlb, uint64_t va)
{
    struct sp_emu_fault unused = {.kind = SP_FAULT_NONE};
    const struct kmd_mapping *m = lookup(tlb->view, va, &unused);
    return m && m->bo && m->bo->domain == AMDGPU_GEM_DOMAIN_VRAM;
}

int sp_emu_read(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes)
{
    for (size_t done = 0, n; done < nbytes; done += n) {
        const uint8_t *from = sp_emu_at(tlb, va + done, SP_VM_READ);
        n = SP_VM_PAGE - (va + done) % SP_VM_PAGE;
        n = n < nbytes - done ? n : nbytes - done;
        if (!from)
            return -EFAULT;
        memcpy((uint8_t *)to + done, from, n);
    }
    return 0;
}

int sp_emu_write(struct sp_emu_tlb *tlb, uint64_t va, const void *from, size_t nbytes)
{
    for (size_t done = 0, n; done < nbytes; done += n) {
        uint8_t *to = sp_emu_at(tlb, va + done, SP_VM_WRITE);
        n = SP_VM_PAGE - (va + done) % SP_VM_PAGE;
        n = n < nbytes - done ? n : nbytes - done;
        if (!to)
            return -EFAULT;
        memcpy(to, (const uint8_t *)from + done, n);
    }
    return 0;
}
