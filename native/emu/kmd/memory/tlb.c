/* Looks up pages in a job's address space, which space.c makes. A TLB entry stays valid until the
 * job ends, because the job holds a reference to the space and so to each of its BOs. */
#include "memory.h"

#include "emu/cache/unit.h"

static const uint8_t zeros[SP_VM_PAGE]; /* contents of a PRT page */
static uint8_t discarded[SP_VM_PAGE];   /* target of all writes to PRT pages; never read */

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
    /* A userptr that the submission does not list is never read, because its pages may be
     * unmapped. */
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

static struct sp_emu_entry *entry_of(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    return &tlb->entry[access == SP_VM_READ ? SP_TLB_READ : SP_TLB_L2][(va >> tlb->bits) % SP_VM_TLB];
}

/* Returns true if an access to the BO goes over the bus: the BO is in the host's memory, and the
 * card has memory of its own. */
static bool is_remote(const struct kmd_bo *bo)
{
    return bo->domain == AMDGPU_GEM_DOMAIN_GTT && !(bo->card->chip.info.ids_flags & AMDGPU_IDS_FLAGS_FUSION);
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
    const struct kmd_mapping *m = lookup(tlb->view, va, fault);
    if (m && (m->rights & access & SP_VM_RIGHTS) == (access & SP_VM_RIGHTS)) {
        /* a PRT page is not cached in the TLB, because reads and writes go to different places */
        if (m->prt)
            return (access & SP_VM_WRITE ? discarded : (uint8_t *)(uintptr_t)zeros) + va % SP_VM_PAGE;
        struct sp_emu_entry *e = entry_of(tlb, va, access);
        uint64_t place = m->offset + sp_emu_canonical(va) - m->first * SP_VM_PAGE - sp_emu_in(tlb, va);
        uint8_t *mark = m->bo->marks ? m->bo->marks + place / SP_VM_PAGE : NULL;
        if (mark && access & SP_VM_WRITE)
            __atomic_fetch_or(mark, SP_MARK_AGENT, __ATOMIC_RELAXED);
        uint32_t slot = (va >> tlb->bits) % SP_VM_TLB;
        tlb->filled[slot / 32] |= 1u << slot % 32;
        *e = (struct sp_emu_entry){va >> tlb->bits, m->bo->host + place, NULL, mark, (m->bo->offset + place) >> tlb->bits,
                                   m->rights | SP_VM_DEVICE | SP_VM_SCALAR | SP_VM_PACKET, tlb->l2 && !m->uncached, is_remote(m->bo)};
        return e->cached ? sp_cache_enter(tlb, e, va, access) : e->host + sp_emu_in(tlb, va);
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

int sp_emu_by_cpu(const struct sp_emu_tlb *tlb, uint64_t va)
{
    struct sp_emu_fault unused = {.kind = SP_FAULT_NONE};
    const struct kmd_mapping *m = lookup(tlb->view, va, &unused);
    if (!m || !m->bo || !m->bo->marks || m->bo->domain != AMDGPU_GEM_DOMAIN_VRAM ||
        m->bo->card->chip.info.ids_flags & AMDGPU_IDS_FLAGS_FUSION)
        return 0;
    uint64_t page = m->offset / SP_VM_PAGE + sp_emu_canonical(va) / SP_VM_PAGE - m->first;
    return !(__atomic_load_n(&m->bo->marks[page], __ATOMIC_RELAXED) & SP_MARK_AGENT);
}

int sp_emu_in_vram(const struct sp_emu_tlb *tlb, uint64_t va)
{
    struct sp_emu_fault unused = {.kind = SP_FAULT_NONE};
    const struct kmd_mapping *m = lookup(tlb->view, va, &unused);
    return m && m->bo && m->bo->domain == AMDGPU_GEM_DOMAIN_VRAM;
}

const uint8_t *sp_emu_seen(struct sp_emu_tlb *tlb, uint64_t va, uint32_t access)
{
    const uint8_t *host = sp_emu_at(tlb, va, access == SP_VM_READ ? SP_VM_READ : SP_VM_READ | SP_VM_DEVICE | (access & SP_VM_SCALAR));
    return host && access != SP_VM_READ && tlb->l2 ? sp_cache_look(tlb, va, host, access) : host;
}

int sp_emu_read_as(struct sp_emu_tlb *tlb, uint64_t va, void *to, size_t nbytes, uint32_t access)
{
    for (size_t done = 0, n; done < nbytes; done += n) {
        const uint8_t *from = sp_emu_seen(tlb, va + done, access);
        n = sp_emu_left(tlb, va + done);
        n = n < nbytes - done ? n : nbytes - done;
        if (!from)
            return -EFAULT;
        if (sp_emu_is_watched(tlb) && sp_emu_saw(tlb, va + done, from, n, access))
            return -EFAULT;
        memcpy((uint8_t *)to + done, from, n);
    }
    return 0;
}

int sp_emu_write(struct sp_emu_tlb *tlb, uint64_t va, const void *from, size_t nbytes)
{
    for (size_t done = 0, n; done < nbytes; done += n) {
        uint8_t *to = sp_emu_at(tlb, va + done, SP_VM_WRITE);
        n = sp_emu_left(tlb, va + done);
        n = n < nbytes - done ? n : nbytes - done;
        if (!to)
            return -EFAULT;
        sp_emu_writes(tlb, va + done, n);
        memcpy(to, (const uint8_t *)from + done, n);
        sp_emu_wrote(tlb, va + done, n);
    }
    return 0;
}
