/* What uploads and downloads share. Callers hold the queue's lock. */
#ifndef SP_CUDA_STAGING_H
#define SP_CUDA_STAGING_H
#include "cuda/flight/queue.h"

enum {
    SP_CUDA_PIECE_NBYTES = 4 << 20, /* over the bus in 0.1 ms and more: a piece's calls, some microseconds, do not show */
    SP_CUDA_SLOTS = 3 /* that one transfer keeps going: one is copied by the host, one by the device, one waits */
};
/* An event behind what the stream was given for this slot: 0 or -errno. */
int sp_cuda_slot_mark(struct sp_cuda_queue *q, struct sp_cuda_slot *slot, void *stream);
/* A stream of the queue's for transfers and memory of the GPU between it and the queue's own: 1; 0: that does it all. The
 * memory is there in the order of stream `order`, NULL: the transfers' own. */
int sp_cuda_between(struct sp_cuda_queue *q, uint64_t nbytes, void **stream, void *order, uint64_t *address);
/* A flight for a transfer, its record for those who ask what runs, and its beginning handed over. */
int sp_cuda_transfer_begin(struct sp_cuda_queue *q, uint64_t dst, uint64_t src, uint64_t nbytes, struct sp_cuda_flight **out);
/* Submits it; `f` is NULL when there was no memory for it. */
int64_t sp_cuda_transfer_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc);
#endif
