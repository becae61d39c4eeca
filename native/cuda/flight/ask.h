/* Questions to the driver: what has ended. Callers hold the queue's lock. */
#ifndef SP_CUDA_ASK_H
#define SP_CUDA_ASK_H
#include "queue.h"

/* The answer of cuEventQuery or cuStreamQuery. */
int sp_cuda_ask(struct sp_cuda_queue *q, int (*question)(void *), void *of);
/* Was the answer an error? `sp_cuda_failed` has been told of it then. */
int sp_cuda_refused(struct sp_cuda_queue *q, const char *call, int result);
/* 1: the driver says so; 0: not yet, or it gave an error, which `sp_cuda_failed` has been told of. */
int sp_cuda_ended(struct sp_cuda_queue *q, void *event);
#endif
