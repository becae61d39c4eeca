/* The ioctl GEM_VA: map, unmap, clear, replace. The update is done when the ioctl returns;
 * DELAY_UPDATE changes nothing here. */
#include "memory.h"
#include "emu/kmd/state/handlers.h"

static const uint64_t HOLE_END = UINT64_C(0xffff800000000000), CANONICAL = UINT64_C(0x0000ffffffffffff);

static int check_range(const struct kmd_file *file, uint64_t va, uint64_t nbytes)
{
    const struct drm_amdgpu_info_device *info = &file->card->chip.info;
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(&file->card->chip.core, SP_FLAW_VA);
    uint64_t top = info->high_va_max & CANONICAL;
    if (flaw && va < flaw->a)
        return -EINVAL;
    if (va < info->virtual_address_offset || (va >= info->virtual_address_max && va < HOLE_END))
        return -EINVAL;
    return nbytes > top || (va & CANONICAL) > top - nbytes ? -EINVAL : 0;
}

/* Checks the size of a range. The operation UNMAP does not call this, because the kernel driver
 * does not check the size there. */
static int check_size(const struct kmd_file *file, uint64_t va, uint64_t nbytes)
{
    uint64_t low_end = file->card->chip.info.virtual_address_max;
    if (va % KMD_PAGE || nbytes % KMD_PAGE || nbytes == 0)
        return -EINVAL;
    /* a range must not reach into the hole between the two halves of the address space */
    return va < low_end && nbytes > low_end - va ? -EINVAL : 0;
}

static int check_flags(const struct kmd_card *card, uint32_t flags)
{
    const uint32_t newer = card->kms_minor < KMD_KMS_NOALLOC ? 0 : AMDGPU_VM_PAGE_NOALLOC;
    const uint32_t mapping = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE |
                             AMDGPU_VM_PAGE_EXECUTABLE | AMDGPU_VM_MTYPE_MASK | newer;
    const uint32_t prt = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_PRT;
    return (flags & ~mapping) && (flags & ~prt) ? -EINVAL : 0;
}

/* Returns true if no cache may hold the pages of a mapping. A flag of the BO overrides the MTYPE of
 * the mapping (gmc_v10_0_map_mtype, gmc_v10_0_get_vm_pte). */
static bool is_uncached(const struct kmd_bo *bo, uint32_t flags)
{
    const uint64_t coherent = AMDGPU_GEM_CREATE_COHERENT | AMDGPU_GEM_CREATE_UNCACHED | AMDGPU_GEM_CREATE_EXT_COHERENT;
    return (flags & AMDGPU_VM_MTYPE_MASK) == AMDGPU_VM_MTYPE_UC || (bo && bo->flags & coherent);
}

static int map(struct kmd_file *file, struct sp_emu_vm *vm, const struct drm_amdgpu_gem_va *args, struct kmd_bo *bo)
{
    bool replace = args->operation == AMDGPU_VA_OP_REPLACE;
    uint64_t first = args->va_address / KMD_PAGE, end = first + args->map_size / KMD_PAGE;
    struct kmd_mapping m = {first, end, bo, args->offset_in_bo, 0, !bo, is_uncached(bo, args->flags)};
    uint32_t f = args->flags;
    if (args->offset_in_bo % KMD_PAGE || check_size(file, args->va_address, args->map_size) < 0)
        return -EINVAL;
    if (bo && (args->offset_in_bo > bo->nbytes || args->map_size > bo->nbytes - args->offset_in_bo))
        return -EINVAL;
    m.rights = (f & AMDGPU_VM_PAGE_READABLE ? SP_VM_READ : 0U) | (f & AMDGPU_VM_PAGE_WRITEABLE ? SP_VM_WRITE : 0U) |
               (f & AMDGPU_VM_PAGE_EXECUTABLE ? SP_VM_EXECUTE : 0U);
    if (m.prt)
        m.rights = SP_VM_READ | SP_VM_WRITE;
    if (bo && bo->user_readonly)
        m.rights &= ~(uint32_t)SP_VM_WRITE;
    if (replace) {
        int rc = kmd_vm_clear(vm, first, end);
        if (rc < 0)
            return rc;
    }
    return kmd_vm_insert(vm, &m);
}

static int unmap(struct sp_emu_vm *vm, uint64_t va, const struct kmd_bo *bo)
{
    uint32_t i = kmd_vm_find(vm, va / KMD_PAGE);
    if (va % KMD_PAGE || i == vm->count || vm->map[i].first != va / KMD_PAGE || vm->map[i].bo != bo)
        return -ENOENT;
    kmd_vm_remove(vm, i);
    return 0;
}

int kmd_do_gem_va(struct kmd_file *file, void *data)
{
    const struct drm_amdgpu_gem_va *args = data;
    struct kmd_bo *bo = NULL;
    int rc = check_range(file, args->va_address, args->map_size);
    if (rc < 0 || (rc = check_flags(file->card, args->flags)) < 0)
        return rc;
    if (args->operation < AMDGPU_VA_OP_MAP || args->operation > AMDGPU_VA_OP_REPLACE)
        return -EINVAL;
    if (args->operation != AMDGPU_VA_OP_CLEAR && !(args->flags & AMDGPU_VM_PAGE_PRT)) {
        bo = kmd_idr_get(&file->bos, args->handle);
        if (!bo)
            return -ENOENT;
    }
    struct sp_emu_vm *vm = kmd_vm_writable(file);
    if (!vm)
        return -ENOMEM;
    switch (args->operation) {
    case AMDGPU_VA_OP_UNMAP:
        return unmap(vm, args->va_address, bo);
    case AMDGPU_VA_OP_CLEAR:
        rc = check_size(file, args->va_address, args->map_size);
        return rc < 0 ? rc : kmd_vm_clear(vm, args->va_address / KMD_PAGE, (args->va_address + args->map_size) / KMD_PAGE);
    default:
        return map(file, vm, args, bo);
    }
}
