/* The GPU's memory in other processes. */
#ifndef SP_CUDA_IPC_H
#define SP_CUDA_IPC_H
#include "cuda/device/device.h"

int sp_cuda_ipc_export(struct sp_cuda *dev, uint64_t address, uint64_t nbytes); /* a new file's descriptor or -errno */
void sp_cuda_ipc_end(int fd); /* the memory goes: those who have the file are told */
int sp_cuda_ipc_is(int fd);
/* The context is current; cuIpcCloseMemHandle ends it. -ENXIO: words say why not. */
int sp_cuda_ipc_open(struct sp_cuda *dev, int fd, uint64_t nbytes, uint64_t *address);
#endif
