/* Pieces of a download that goes on. Callers hold the queue's lock. */
#ifndef SP_CUDA_PIECES_H
#define SP_CUDA_PIECES_H
#include "cuda/flight/queue.h"

/* Up to `count` pieces are asked for, each in a new slot; `aside`: the queue's stream is wanted for other work. */
int sp_cuda_pieces(struct sp_cuda_queue *q, struct sp_cuda_flight *f, uint64_t count, int aside, void **last);
/* Takes the pieces of a download that have come in, and sends for more: 1: all are here, or the end will tell; 0. */
int sp_cuda_land(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* All of the open download is with the driver then, as what is submitted next comes behind it. */
void sp_cuda_settle(struct sp_cuda_queue *q);
/* The same of the queues that the records wait for; the caller has no queue's lock. */
void sp_cuda_settle_others(struct sp_cuda_queue *q, const void *records, size_t nbytes);
#endif
