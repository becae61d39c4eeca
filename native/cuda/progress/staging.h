/* The common part of uploads and downloads. Callers hold the queue's lock. */
#ifndef SP_CUDA_STAGING_H
#define SP_CUDA_STAGING_H
#include "cuda/flight/queue.h"

enum {
    /* 0.1 ms or more over the bus, so that a piece's calls, some microseconds, do not matter */
    SP_CUDA_PIECE_NBYTES = 4 << 20,
    SP_CUDA_SLOTS = 3 /* slots of one transfer: the host copies one, the device copies one, one waits */
};
/* Records an event after the work that the stream has for this slot. 0 or -errno. */
int sp_cuda_slot_mark(struct sp_cuda_queue *q, struct sp_cuda_slot *slot, void *stream);
/* Chooses the queue's transfer stream and GPU memory between it and the queue's stream. 1; 0: use
 * the queue's stream alone. The memory is allocated in the order of stream `order`; NULL: the
 * transfer stream. */
int sp_cuda_between(struct sp_cuda_queue *q, uint64_t nbytes, void **stream, void *order, uint64_t *address);
/* Makes a flight for a transfer with a record that describes it, and submits its beginning. */
int sp_cuda_transfer_begin(struct sp_cuda_queue *q, uint64_t dst, uint64_t src, uint64_t nbytes, struct sp_cuda_flight **out);
/* Submits it; `f` is NULL if there was no memory for it. */
int64_t sp_cuda_transfer_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc);
#endif
