/* Makes kernel handles: from a row of the built-in table, or from an entry of a user's shared
 * library. */
#include "device.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sp_cpu_entry(uint32_t index, struct sp_cpu_entry *out)
{
    if (index >= sp_cpu_nrows)
        return -ENOENT;
    const struct sp_cpu_row *row = &sp_cpu_rows[index];
    *out = (struct sp_cpu_entry){.name = row->name, .form = row->form, .args_nbytes = (row->args_nbytes + 7) & ~7u};
    for (uint32_t isa = 0; isa <= SP_ISA_AVX512; isa++)
        if (row->fn[isa])
            out->isa_mask |= 1u << isa;
    return 0;
}

static const struct sp_cpu_row *find(const char *name)
{
    for (uint32_t i = 0; i < sp_cpu_nrows; i++)
        if (strcmp(sp_cpu_rows[i].name, name) == 0)
            return &sp_cpu_rows[i];
    return NULL;
}

static struct sp_cpu_kernel *make(struct sp_cpu *dev, const struct sp_signature *sig)
{
    struct sp_cpu_kernel *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->magic = SP_KERNEL_MAGIC;
    k->dev = dev;
    k->handed_over = dev->confined;
    k->sig = *sig;
    atomic_fetch_add(&sp_live()->kernels, 1);
    return k;
}

int sp_cpu_load(struct sp_cpu *dev, const char *name, const struct sp_signature *sig, const struct sp_tile_plan *plan,
                struct sp_cpu_kernel **out)
{
    const struct sp_cpu_row *row = find(name);
    if (!row)
        return -ENOENT;
    if (sig->nargs > SP_MAX_ARGS || sig->args_nbytes != ((row->args_nbytes + 7) & ~7u))
        return -EINVAL;
    struct sp_cpu_kernel *k = make(dev, sig);
    if (!k)
        return -ENOMEM;
    if (plan)
        k->plan = *plan;
    k->form = row->form;
    k->isa = dev->isa;
    while (k->isa > SP_ISA_REF && !row->fn[k->isa])
        k->isa--;
    k->fn = row->fn[k->isa];
    *out = k;
    return 0;
}

int sp_cpu_load_library(struct sp_cpu *dev, const char *path, const char *entry, const struct sp_signature *sig,
                        char *why, size_t why_nbytes, struct sp_cpu_kernel **out)
{
    if (why_nbytes)
        why[0] = 0;
    if (sig->nargs > SP_MAX_ARGS)
        return -EINVAL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, entry) : NULL;
    if (!symbol) {
        const char *message = dlerror();
        snprintf(why, why_nbytes, "%s", message ? message : "the symbol is null");
        if (library)
            dlclose(library);
        return library ? -ENOENT : -ENOEXEC;
    }
    struct sp_cpu_kernel *k = make(dev, sig);
    if (!k) {
        dlclose(library);
        return -ENOMEM;
    }
    k->form = SP_FORM_GRID;
    k->isa = SP_ISA_REF;
    k->library = library;
    k->handed_over = 1;
    /* POSIX allows this conversion for pointers from dlsym */
    memcpy(&k->fn, &symbol, sizeof symbol);
    *out = k;
    return 0;
}

void sp_cpu_unload(struct sp_cpu_kernel *k)
{
    if (!k)
        return;
    k->magic = 0;
    if (k->library)
        dlclose(k->library);
    free(k);
    atomic_fetch_sub(&sp_live()->kernels, 1);
}

uint32_t sp_cpu_kernel_form(const struct sp_cpu_kernel *k)
{
    return k->form;
}

uint32_t sp_cpu_kernel_isa(const struct sp_cpu_kernel *k)
{
    return k->isa;
}
