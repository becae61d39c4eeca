/* The ioctls VERSION, GET_CAP and VM. */
#include "emu/kmd/state/handlers.h"
#include "emu/kmd/state/state.h"

#include <string.h>

static int give_string(const char *text, char *to, size_t *length)
{
    size_t all = strlen(text), n = *length < all ? *length : all;
    *length = all;
    return n && to ? kmd_copy_to_user((uint64_t)(uintptr_t)to, text, n) : 0;
}

int kmd_do_version(struct kmd_file *file, void *data)
{
    struct drm_version *args = data;
    args->version_major = 3;
    args->version_minor = (int)file->card->kms_minor;
    args->version_patchlevel = 0;
    const char *name = sp_emu_flaw(&file->card->chip.core, SP_FLAW_DRIVER) ? "radeon" : "amdgpu";
    int rc = give_string(name, args->name, &args->name_len);
    if (rc == 0)
        rc = give_string("20150101", args->date, &args->date_len);
    return rc ? rc : give_string("AMD GPU", args->desc, &args->desc_len);
}

int kmd_do_get_cap(struct kmd_file *file, void *data)
{
    struct drm_get_cap *args = data;
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(&file->card->chip.core, SP_FLAW_CAP);
    if (flaw && flaw->a == args->capability) {
        args->value = 0;
        return 0;
    }
    switch (args->capability) {
    case DRM_CAP_PRIME:
        args->value = DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT;
        return 0;
    case DRM_CAP_TIMESTAMP_MONOTONIC:
    case DRM_CAP_ADDFB2_MODIFIERS:
    case DRM_CAP_SYNCOBJ:
    case DRM_CAP_SYNCOBJ_TIMELINE:
        args->value = 1;
        return 0;
    default:
        args->value = 0;
        return -EINVAL;
    }
}

int kmd_do_vm(struct kmd_file *file, void *data)
{
    const union drm_amdgpu_vm *args = data;
    (void)file;
    if (args->in.flags)
        return -EINVAL;
    return args->in.op == AMDGPU_VM_OP_RESERVE_VMID || args->in.op == AMDGPU_VM_OP_UNRESERVE_VMID ? 0 : -EINVAL;
}
