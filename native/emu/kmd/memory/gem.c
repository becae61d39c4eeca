/* The ioctls GEM_CREATE, GEM_MMAP, GEM_CLOSE, GEM_METADATA, GEM_WAIT_IDLE and GEM_OP. */
#include "memory.h"
#include "emu/kmd/state/handlers.h"

#include <string.h>

static const uint64_t HEAPS = AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_VRAM;
static const uint64_t ON_CHIP = AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_OA;

static struct kmd_bo *find(struct kmd_file *file, uint32_t handle)
{
    return kmd_idr_get(&file->bos, handle);
}

/* Returns the BO flags that user space may set, by the card's KMS version. */
static uint64_t settable(const struct kmd_card *card)
{
    uint64_t mask = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | AMDGPU_GEM_CREATE_NO_CPU_ACCESS |
                    AMDGPU_GEM_CREATE_CPU_GTT_USWC | AMDGPU_GEM_CREATE_VRAM_CLEARED |
                    AMDGPU_GEM_CREATE_VM_ALWAYS_VALID | AMDGPU_GEM_CREATE_EXPLICIT_SYNC |
                    AMDGPU_GEM_CREATE_ENCRYPTED;
    if (card->kms_minor >= KMD_KMS_NOALLOC)
        mask |= AMDGPU_GEM_CREATE_DISCARDABLE;
    if (card->kms_minor >= KMD_KMS_DCC)
        mask |= AMDGPU_GEM_CREATE_GFX12_DCC;
    if (card->kms_minor >= KMD_KMS_WIPE)
        mask |= AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE | AMDGPU_GEM_CREATE_COHERENT | AMDGPU_GEM_CREATE_UNCACHED |
                AMDGPU_GEM_CREATE_EXT_COHERENT;
    return mask;
}

/* amdgpu_bo_create counts a page for each byte of GDS, in units of 4 bytes, and for each GWS
 * resource and each OA counter. */
static uint64_t on_chip_nbytes(uint64_t domains, uint64_t size)
{
    return (domains & AMDGPU_GEM_DOMAIN_GDS ? (size + 3) / 4 * 4 : size) * KMD_PAGE;
}

int kmd_do_gem_create(struct kmd_file *file, void *data)
{
    union drm_amdgpu_gem_create *args = data;
    struct drm_amdgpu_gem_create_in in = args->in;
    struct kmd_bo *bo;
    uint32_t handle;
    if (in.domain_flags & ~settable(file->card) || in.domains & ~(HEAPS | ON_CHIP))
        return -EINVAL;
    /* these cards have no TMZ (encrypted memory) */
    if (in.domain_flags & AMDGPU_GEM_CREATE_ENCRYPTED)
        return -EINVAL;
    if (in.domains & ON_CHIP) {
        if (in.domain_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
            return -EINVAL;
        in.domain_flags |= AMDGPU_GEM_CREATE_NO_CPU_ACCESS;
    }
    if (in.bo_size == 0)
        return -EINVAL;
    if (in.bo_size > file->card->chip.vram_nbytes + file->card->chip.gtt_nbytes)
        return -ENOMEM;
    uint64_t nbytes = in.domains & ON_CHIP ? on_chip_nbytes(in.domains, in.bo_size)
                                           : (in.bo_size + KMD_PAGE - 1) / KMD_PAGE * KMD_PAGE;
    int rc = kmd_bo_new(file->card, nbytes, (uint32_t)in.domains, in.domain_flags, &bo);
    if (rc < 0)
        return rc;
    if (file->card->kms_minor >= KMD_KMS_CLEARED)
        bo->flags |= AMDGPU_GEM_CREATE_VRAM_CLEARED;
    bo->alignment = in.alignment < KMD_PAGE ? KMD_PAGE : in.alignment;
    if (in.domain_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
        bo->private_to = file;
    rc = kmd_idr_add(&file->bos, bo, &handle);
    if (rc < 0) {
        kmd_bo_put(bo);
        return rc;
    }
    memset(args, 0, sizeof(*args));
    args->out.handle = handle;
    return 0;
}

int kmd_do_gem_mmap(struct kmd_file *file, void *data)
{
    union drm_amdgpu_gem_mmap *args = data;
    const struct kmd_bo *bo = find(file, args->in.handle);
    if (!bo)
        return -ENOENT;
    if (bo->userptr || bo->flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS)
        return -EPERM;
    args->out.addr_ptr = bo->offset;
    return 0;
}

int kmd_do_gem_close(struct kmd_file *file, void *data)
{
    const struct drm_gem_close *args = data;
    struct kmd_bo *bo = find(file, args->handle);
    if (!bo)
        return -EINVAL;
    struct sp_emu_vm *vm = kmd_vm_writable(file);
    if (!vm)
        return -ENOMEM;
    for (uint32_t i = vm->count; i-- > 0;)
        if (vm->map[i].bo == bo)
            kmd_vm_remove(vm, i);
    kmd_idr_remove(&file->bos, args->handle);
    kmd_bo_put(bo);
    return 0;
}

int kmd_do_gem_metadata(struct kmd_file *file, void *data)
{
    struct drm_amdgpu_gem_metadata *args = data;
    struct kmd_bo *bo = find(file, args->handle);
    if (!bo)
        return -ENOENT;
    if (args->op == AMDGPU_GEM_METADATA_OP_GET_METADATA) {
        args->data.flags = bo->metadata_flags;
        args->data.tiling_info = bo->tiling_info;
        args->data.data_size_bytes = bo->metadata_nbytes;
        memcpy(args->data.data, bo->metadata, sizeof(args->data.data));
        return 0;
    }
    if (args->op != AMDGPU_GEM_METADATA_OP_SET_METADATA || args->data.data_size_bytes > sizeof(args->data.data))
        return -EINVAL;
    bo->metadata_flags = args->data.flags;
    bo->tiling_info = args->data.tiling_info;
    bo->metadata_nbytes = args->data.data_size_bytes;
    memcpy(bo->metadata, args->data.data, args->data.data_size_bytes);
    return 0;
}

int kmd_do_gem_wait_idle(struct kmd_file *file, void *data)
{
    union drm_amdgpu_gem_wait_idle *args = data;
    uint64_t deadline = kmd_deadline(args->in.timeout);
    struct kmd_bo *bo = find(file, args->in.handle);
    int rc = 0;
    if (!bo)
        return -ENOENT;
    kmd_bo_get(bo);
    /* a BO with VM_ALWAYS_VALID counts as used by every job of its VM */
    struct kmd_uses *uses = bo->private_to ? &file->uses : &bo->uses;
    for (kmd_uses_prune(uses); uses->count > 0 && rc == 0; kmd_uses_prune(uses))
        rc = kmd_wait_change(file->card->machine, file->card, deadline);
    kmd_bo_put(bo);
    if (rc < 0 && rc != -ETIME)
        return rc;
    memset(args, 0, sizeof(*args));
    args->out.status = rc == -ETIME;
    return 0;
}

int kmd_do_gem_op(struct kmd_file *file, void *data)
{
    struct drm_amdgpu_gem_op *args = data;
    struct kmd_bo *bo = find(file, args->handle);
    if (!bo)
        return -ENOENT;
    if (args->op == AMDGPU_GEM_OP_GET_GEM_CREATE_INFO) {
        struct drm_amdgpu_gem_create_in info = {bo->nbytes, bo->alignment, bo->domains, bo->flags};
        return kmd_copy_to_user(args->value, &info, sizeof(info));
    }
    if (args->op != AMDGPU_GEM_OP_SET_PLACEMENT)
        return -EINVAL;
    if (bo->userptr)
        return -EPERM;
    if ((bo->pinned || bo->dmabuf) && args->value & AMDGPU_GEM_DOMAIN_VRAM)
        return -EINVAL;
    bo->domains = (uint32_t)(args->value & HEAPS);
    return 0;
}
