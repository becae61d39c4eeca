/* Queries the driver which work has ended. Callers hold the queue's lock. */
#ifndef SP_CUDA_ASK_H
#define SP_CUDA_ASK_H
#include "queue.h"

/* The result of cuEventQuery or cuStreamQuery. */
int sp_cuda_ask(struct sp_cuda_queue *q, int (*question)(void *), void *of);
/* 1 if the result was an error, which `sp_cuda_failed` has recorded. */
int sp_cuda_refused(struct sp_cuda_queue *q, const char *call, int result);
/* 1: the event has ended. 0: not yet, or an error that `sp_cuda_failed` has recorded. */
int sp_cuda_ended(struct sp_cuda_queue *q, void *event);
#endif
