/* Tracks the progress of a queue. */
#ifndef SP_CUDA_PROGRESS_H
#define SP_CUDA_PROGRESS_H
#include "cuda/flight/queue.h"

void sp_cuda_progress(struct sp_cuda_queue *q); /* the caller holds the queue's lock */
#endif
