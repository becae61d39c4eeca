/* Records as calls of the driver. Callers hold the queue's lock. */
#ifndef SP_CUDA_REPLAY_H
#define SP_CUDA_REPLAY_H
#include "cuda/flight/queue.h"

int sp_cuda_dispatch(struct sp_cuda_queue *q, const struct sp_cmd_dispatch *d); /* a launch: a CUresult */
int sp_cuda_overlaps(const struct sp_cmd_copy *c);
/* Bytes from a fill's start to the first address that is a multiple of its element: the driver fills elements only there (CUDA
 * Driver API, cuMemsetD16Async and cuMemsetD32Async). */
uint32_t sp_cuda_fill_ahead(const struct sp_cmd_fill *f);
/* All records, one after the other: 0 or -errno. */
int sp_cuda_replay(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
