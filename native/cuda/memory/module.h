/* Modules: a module is a loaded image, which all kernels of that image share. */
#ifndef SP_CUDA_MODULE_H
#define SP_CUDA_MODULE_H
#include "cuda/device/device.h"

struct sp_cuda_module;
/* Stores the module of an image in `out`. Loads the image unless another kernel of the device uses
 * it. The caller has made the context current. `why` receives the driver's message and the
 * compiler's log. */
int sp_cuda_module_take(struct sp_cuda *dev, const void *image, size_t nbytes, char *why, size_t why_nbytes,
                        struct sp_cuda_module **out);
void *sp_cuda_module_handle(const struct sp_cuda_module *m);
/* Drops one kernel's reference to the module. Dropping the last reference unloads the module. */
void sp_cuda_module_give(struct sp_cuda *dev, struct sp_cuda_module *m);
#endif
