/* Looks up pages in a job's address space, which space.c makes, and checks that the job lists their
 * BOs. */
#include "memory.h"

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

/* Returns true if the card has memory of its own, which a bus separates from the host's. */
static bool has_bus(const struct kmd_bo *bo)
{
    return !(bo->card->chip.info.ids_flags & AMDGPU_IDS_FLAGS_FUSION);
}

int kmd_vm_page(const struct sp_emu_view *view, uint64_t va, struct sp_emu_page *page, struct sp_emu_fault *fault)
{
    const struct kmd_mapping *m = lookup(view, va, fault);
    if (!m)
        return -EFAULT;
    page->rights = m->rights;
    page->uncached = m->uncached;
    page->host = page->mark = NULL;
    page->in_vram = page->has_bus = page->remote = false;
    if (m->prt)
        return 0;
    const struct kmd_bo *bo = m->bo;
    uint64_t place = m->offset + (sp_emu_canonical(va) / SP_VM_PAGE - m->first) * SP_VM_PAGE;
    page->host = bo->host + place;
    page->mark = bo->marks ? bo->marks + place / SP_VM_PAGE : NULL;
    page->place = bo->offset + place;
    page->in_vram = bo->domain == AMDGPU_GEM_DOMAIN_VRAM;
    page->has_bus = has_bus(bo);
    page->remote = bo->domain == AMDGPU_GEM_DOMAIN_GTT && page->has_bus;
    return 0;
}
