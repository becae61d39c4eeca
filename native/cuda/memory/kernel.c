/* Kernels: finds the entry function in a module, and compares its arguments with the signature. */
#include "kernel.h"
#include "cuda/device/context.h"
#include "cuda/device/lost.h"
#include "cuda/device/open.h"
#include "module.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t attribute(void *function, int which)
{
    int value = 0;
    return sp_cuFuncGetAttribute(&value, which, function) == CU_OK && value > 0 ? (uint32_t)value : 0;
}

/* Compares the driver's report of each argument's size and offset with the signature. If they
 * differ, writes a text that names the difference to `why`, and returns -EINVAL. */
static int compare(const struct sp_cuda_kernel *k, char *why, size_t why_nbytes)
{
    const struct sp_signature *sig = &k->sig;
    if (!(k->dev->info.features & SP_CUDA_PARAMS))
        return 0;
    for (uint32_t i = 0; i <= sig->nargs; i++) {
        size_t offset = 0, nbytes = 0;
        int result = sp_cuFuncGetParamInfo(k->function, i, &offset, &nbytes);
        if (i == sig->nargs && result == CU_OK) {
            snprintf(why, why_nbytes, "%s: expected more than the %u arguments given", k->name, sig->nargs);
            return -EINVAL;
        }
        if (i == sig->nargs)
            break;
        if (result == CU_INVALID_VALUE) {
            snprintf(why, why_nbytes, "%s: expected %u arguments, got %u", k->name, i, sig->nargs);
            return -EINVAL;
        }
        if (result != CU_OK)
            return sp_cuda_rc(k->dev, "cuFuncGetParamInfo", result);
        if (offset != sig->args[i].offset || nbytes != sig->args[i].nbytes) {
            snprintf(why, why_nbytes, "%s: argument %u: expected %zu bytes at offset %zu, got %u at %u", k->name, i, nbytes,
                     offset, sig->args[i].nbytes, sig->args[i].offset);
            return -EINVAL;
        }
    }
    return 0;
}

static int look(struct sp_cuda_kernel *k, const char *entry, char *why, size_t why_nbytes)
{
    int rc = SP_CUDA_RC(k->dev, cuModuleGetFunction, &k->function, sp_cuda_module_handle(k->module), entry);
    if (rc == 0)
        rc = compare(k, why, why_nbytes);
    if (rc)
        return rc;
    const struct sp_cuda_info *info = &k->dev->info;
    int most = 0;
    rc = SP_CUDA_RC(k->dev, cuFuncGetAttribute, &most, CU_FN_MAX_THREADS, k->function);
    if (rc)
        return rc;
    k->shape.max_threads = most > 0 ? (uint32_t)most : 0;
    k->shape.registers = attribute(k->function, CU_FN_REGISTERS);
    k->shape.shared_nbytes = attribute(k->function, CU_FN_SHARED);
    k->shape.local_nbytes = attribute(k->function, CU_FN_LOCAL);
    k->shape.binary_version = attribute(k->function, CU_FN_BINARY_VERSION);
    uint32_t own = k->shape.shared_nbytes, all = info->shared_nbytes;
    k->most_shared = own < info->plain_shared_nbytes ? info->plain_shared_nbytes - own : 0;
    if (own < all && all > info->plain_shared_nbytes &&
        sp_cuFuncSetAttribute(k->function, CU_FN_MAX_DYNAMIC_SHARED, (int)(all - own)) == CU_OK)
        k->most_shared = all - own;
    return 0;
}

int sp_cuda_load_image(struct sp_cuda *dev, const void *image, size_t nbytes, const char *entry, const char *name,
                       const struct sp_signature *sig, char *why, size_t why_nbytes, struct sp_cuda_kernel **out)
{
    why[0] = '\0';
    if (!sp_cuda_usable(dev))
        return -ECHILD;
    int rc = sp_cuda_gone(dev);
    if (rc == 0)
        rc = sp_cuda_enter(dev);
    struct sp_cuda_kernel *k = rc ? NULL : calloc(1, sizeof *k);
    if (!k)
        return rc ? rc : -ENOMEM;
    static _Atomic uint64_t serials;
    k->magic = SP_CUDA_KERNEL_MAGIC;
    k->serial = atomic_fetch_add(&serials, 1) + 1;
    k->dev = dev;
    k->sig = *sig;
    snprintf(k->name, sizeof k->name, "%s", name);
    sp_cuda_ref(dev);
    atomic_fetch_add(&sp_live()->kernels, 1);
    rc = sp_cuda_module_take(dev, image, nbytes, why, why_nbytes, &k->module);
    if (rc == 0)
        rc = look(k, entry, why, why_nbytes);
    if (rc)
        sp_cuda_unload(k);
    else
        *out = k;
    sp_cuda_leave();
    return rc;
}

void sp_cuda_unload(struct sp_cuda_kernel *k)
{
    if (!k)
        return;
    struct sp_cuda *dev = k->dev;
    k->magic = 0;
    if (sp_cuda_usable(dev) && k->module)
        sp_cuda_module_give(dev, k->module);
    free(k);
    atomic_fetch_sub(&sp_live()->kernels, 1);
    sp_cuda_leave();
    sp_cuda_unref(dev);
}

void sp_cuda_kernel_shape(const struct sp_cuda_kernel *k, struct sp_cuda_shape *out)
{
    *out = k->shape;
}
