/* The common part of uploads and downloads. The caller of each function holds the queue's lock. */
#ifndef SP_CUDA_STAGING_H
#define SP_CUDA_STAGING_H
#include "cuda/flight/queue.h"

enum {
    /* A transfer is copied in pieces of this size. A piece takes 0.1 ms or more over the bus. The
     * driver calls for a piece take only some microseconds. */
    SP_CUDA_PIECE_NBYTES = 4 << 20,
    /* Number of slots that a large transfer uses in turn, one piece in each: the host copies one
     * piece, the device copies another, and a third waits. */
    SP_CUDA_SLOTS = 3
};
/* Records the slot's event on the stream. The event shows when the copy of the slot's piece has
 * ended, so call it after that copy was submitted. Returns 0 or -errno. */
int sp_cuda_slot_mark(struct sp_cuda_queue *q, struct sp_cuda_slot *slot, void *stream);
/* Makes the queue's transfer stream, and allocates GPU memory through which bytes pass between that
 * stream and the queue's stream. Returns 1, or 0 if the copy must use the queue's stream alone.
 * `order` is the stream in whose order the memory is allocated; NULL: the transfer stream. */
int sp_cuda_staging_alloc(struct sp_cuda_queue *q, uint64_t nbytes, void **stream, void *order, uint64_t *address);
/* Makes a flight for a transfer, with a record that describes the transfer. Begins the flight by
 * sp_cuda_flight_begin. Returns 0 or -errno. */
int sp_cuda_transfer_begin(struct sp_cuda_queue *q, uint64_t dst, uint64_t src, uint64_t nbytes, struct sp_cuda_flight **out);
/* Submits the flight of a transfer and returns its timeline value or -errno. `f` is NULL if there
 * was no memory for the flight. */
int64_t sp_cuda_transfer_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc);
#endif
