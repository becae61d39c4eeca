/* Which kernels there are. A kernel runs by the name of its entry: one C function a kernel of shaders/manifest.json. */
#include "kernels.h"

#include <string.h>

static struct fk_kernel *const tables[] = {fk_kernels_elementwise, fk_kernels_map, fk_kernels_gemm, fk_kernels_conv2d,
                                           fk_kernels_reduce, fk_kernels_layout, fk_kernels_misc};

void fk_kernels_init(void)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (struct fk_kernel *k = tables[t]; k->name; k++) {
            struct fk_params *const p = &k->params;
            *p = (struct fk_params){0};
            for (const char *c = k->signature; *c; c++) {
                const unsigned size = *c == 'p' || *c == 'd' ? 8 : 4;
                p->nbytes = (p->nbytes + size - 1) / size * size;
                p->at[p->count].offset = p->nbytes;
                p->at[p->count++].size = size;
                p->nbytes += size;
            }
        }
}

const struct fk_kernel *fk_kernel_named(const char *name)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct fk_kernel *k = tables[t]; k->name; k++)
            if (strcmp(k->name, name) == 0)
                return k;
    return NULL;
}
