/* The GPU's memory in other processes. */
#ifndef SP_CUDA_IPC_H
#define SP_CUDA_IPC_H
#include "cuda/device/device.h"

/* descriptor of a new file, or -errno */
int sp_cuda_ipc_export(struct sp_cuda *dev, uint64_t address, uint64_t nbytes);
void sp_cuda_ipc_end(int fd); /* the memory is freed: marks the file for its readers */
int sp_cuda_ipc_is(int fd);
/* Call it with the context current; cuIpcCloseMemHandle ends the mapping. -ENXIO: the text says
 * why. */
int sp_cuda_ipc_open(struct sp_cuda *dev, int fd, uint64_t nbytes, uint64_t *address);
#endif
