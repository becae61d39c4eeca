/* Shares GPU memory with other processes. */
#ifndef SP_CUDA_IPC_H
#define SP_CUDA_IPC_H
#include "cuda/device/device.h"

/* Returns the descriptor of a new file that exports the memory, or -errno. */
int sp_cuda_ipc_export(struct sp_cuda *dev, uint64_t address, uint64_t nbytes);
/* Marks the memory as freed in the export's file `fd`. Other processes then no longer map it. */
void sp_cuda_ipc_end(int fd);
int sp_cuda_ipc_is(int fd);
/* Maps exported memory of another process. The caller has made the context current, and ends the
 * mapping by cuIpcCloseMemHandle. Returns 0 or -errno; for -ENXIO sp_cuda_why has the reason. */
int sp_cuda_ipc_open(struct sp_cuda *dev, int fd, uint64_t nbytes, uint64_t *address);
#endif
