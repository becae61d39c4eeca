/* Tracks the progress of a queue. */
#ifndef SP_CUDA_PROGRESS_H
#define SP_CUDA_PROGRESS_H
#include "cuda/flight/queue.h"

/* Retires the submissions that have ended, and updates `reached`. The caller holds the queue's
 * lock. */
void sp_cuda_progress(struct sp_cuda_queue *q);
#endif
