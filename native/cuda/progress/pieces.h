/* Pieces of an open download. A download is open while some of its pieces are not submitted to the
 * driver yet. The pieces travel through page-locked slots. The caller of each function holds the
 * queue's lock, except for sp_cuda_settle_others. */
#ifndef SP_CUDA_PIECES_H
#define SP_CUDA_PIECES_H
#include "cuda/flight/queue.h"

/* Submits up to `count` pieces of the open download, each into a new slot. With `aside`, the copies
 * leave the queue's stream free for other work. */
int sp_cuda_pieces(struct sp_cuda_queue *q, struct sp_cuda_flight *f, uint64_t count, int aside, void **last);
/* Copies the pieces of the open download that have arrived in page-locked slots to the caller's
 * memory, and submits further pieces. Returns 1 if all pieces have arrived, or if the rest arrives
 * before the flight's end event. Otherwise returns 0. */
int sp_cuda_receive_pieces(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* Submits the rest of the open download, so that later work comes after it. */
void sp_cuda_settle(struct sp_cuda_queue *q);
/* Calls sp_cuda_settle for each queue that a command in `records` waits for. The caller holds no
 * queue's lock. */
void sp_cuda_settle_others(struct sp_cuda_queue *q, const void *records, size_t nbytes);
#endif
