/* Modules: an image is loaded once for all its kernels. */
#ifndef SP_CUDA_MODULE_H
#define SP_CUDA_MODULE_H
#include "cuda/device/device.h"

struct sp_cuda_module;
/* The module of an image, loaded unless another kernel of the device uses it. Call it with the
 * context current. `why` receives the driver's message and the compiler's log. */
int sp_cuda_module_take(struct sp_cuda *dev, const void *image, size_t nbytes, char *why, size_t why_nbytes,
                        struct sp_cuda_module **out);
void *sp_cuda_module_handle(const struct sp_cuda_module *m);
/* Drops one kernel's reference. The last one unloads the module. */
void sp_cuda_module_give(struct sp_cuda *dev, struct sp_cuda_module *m);
#endif
