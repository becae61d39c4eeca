/* Kernels of the AMD device: a kernel is a template of one dispatch, and its code in memory. */
#include "kernel.h"
#include "core/base.h"

#include <errno.h>
#include <stdlib.h>

static int inside(uint32_t at, uint32_t count, uint32_t ndw)
{
    return at == 0 || (at < ndw && count <= ndw - at);
}

/* Checks a kernel's template: every position in it is an index of one of its dwords, and every
 * argument lies inside the argument segment. The encoder later writes to these places without a
 * check. */
static int sane(const struct sp_amdgpu_template *t, const struct sp_signature *sig)
{
    if (t->ndw > SP_AMDGPU_PACKETS || t->nhidden > SP_AMDGPU_HIDDEN || t->ncopies > SP_AMDGPU_COPIES ||
        t->kernarg_nbytes > SP_ARGS_NBYTES / 2 || t->max_threads > 1024 ||
        (t->kernarg_align & (t->kernarg_align - 1)) != 0 || t->kernarg_align > 256)
        return 0;
    if (t->dynamic_lds_at && (t->dynamic_lds_align == 0 || t->dynamic_lds_at - 1 > t->kernarg_nbytes - 4))
        return 0;
    for (uint32_t i = 0; i < t->ncopies; i++) {
        const struct sp_amdgpu_argument_copy *c = &t->copies[i];
        if ((uint64_t)c->source + c->nbytes > sig->args_nbytes || (uint64_t)c->target + c->nbytes > t->kernarg_nbytes)
            return 0;
    }
    for (uint32_t i = 0; i < t->nhidden; i++)
        if (t->hidden[i].nbytes > 8 || t->hidden[i].offset > t->kernarg_nbytes ||
            t->hidden[i].nbytes > t->kernarg_nbytes - t->hidden[i].offset)
            return 0;
    return t->rsrc2_at && t->start_at && t->dims_at && inside(t->rsrc2_at, 1, t->ndw) && inside(t->tmpring_at, 1, t->ndw) &&
           inside(t->scratch_base_at, 2, t->ndw) && inside(t->scratch_resource_at, 2, t->ndw) &&
           inside(t->scratch_address_at, 2, t->ndw) && inside(t->start_at, 6, t->ndw) && inside(t->kernarg_at, 2, t->ndw) &&
           inside(t->dims_at, 4, t->ndw);
}

int sp_amdgpu_load(struct sp_amdgpu *dev, const struct sp_amdgpu_template *template_, const struct sp_signature *sig,
                   struct sp_amdgpu_memory *code, struct sp_amdgpu_kernel **out)
{
    if (!sane(template_, sig) || code->dev != dev)
        return -EINVAL;
    struct sp_amdgpu_kernel *k = calloc(1, sizeof *k);
    if (!k)
        return -ENOMEM;
    k->magic = SP_KERNEL_MAGIC_AMD;
    k->dev = dev;
    k->t = *template_;
    k->t.name[sizeof k->t.name - 1] = 0;
    k->sig = *sig;
    k->code = code;
    sp_amdgpu_wrote(dev); /* the CPU has just written the code */
    atomic_fetch_add(&dev->code_turn, 1);
    atomic_store(&k->job_threads, dev->setup.job_threads);
    sp_amdgpu_hold(code);
    sp_amdgpu_ref(dev);
    atomic_fetch_add(&sp_live()->kernels, 1);
    *out = k;
    return 0;
}

int sp_amdgpu_template_of(const struct sp_amdgpu_kernel *k, struct sp_amdgpu_template *out)
{
    if (!k || k->magic != SP_KERNEL_MAGIC_AMD)
        return -EINVAL;
    *out = k->t;
    return 0;
}

void sp_amdgpu_unload(struct sp_amdgpu_kernel *k)
{
    if (!k || !sp_device_usable(&k->dev->common))
        return;
    struct sp_amdgpu *dev = k->dev;
    k->magic = 0;
    atomic_fetch_add(&dev->kernel_turn, 1);
    sp_amdgpu_free(k->code);
    free(k);
    atomic_fetch_sub(&sp_live()->kernels, 1);
    sp_amdgpu_unref(dev);
}
