/* Replays command records as driver calls. The caller of each function holds the queue's lock. */
#ifndef SP_CUDA_REPLAY_H
#define SP_CUDA_REPLAY_H
#include "cuda/flight/queue.h"

/* Launches the kernel of a dispatch record; returns a CUresult. */
int sp_cuda_dispatch(struct sp_cuda_queue *q, const struct sp_cmd_dispatch *d);
int sp_cuda_overlaps(const struct sp_cmd_copy *c);
/* Returns the number of bytes from a fill's start to the first multiple of its element size. The
 * driver fills only aligned elements (CUDA Driver API, cuMemsetD16Async and cuMemsetD32Async). */
uint32_t sp_cuda_fill_ahead(const struct sp_cmd_fill *f);
/* Replays all records of a flight in order. Returns 0 or -errno. */
int sp_cuda_replay(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
