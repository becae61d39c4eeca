/* Asks the driver which work has ended. The caller of each function holds the queue's lock. */
#ifndef SP_CUDA_QUERY_H
#define SP_CUDA_QUERY_H
#include "queue.h"

/* Calls `question(of)`, which is cuEventQuery or cuStreamQuery, and returns its result. */
int sp_cuda_query(struct sp_cuda_queue *q, int (*question)(void *), void *of);
/* Returns 1 if `result` of the driver's function `call` is an error, after sp_cuda_failed has
 * recorded that error. Returns 0 otherwise. */
int sp_cuda_refused(struct sp_cuda_queue *q, const char *call, int result);
/* Returns 1 if the event has ended. Returns 0 if it has not, or after an error, which
 * `sp_cuda_failed` has recorded. */
int sp_cuda_ended(struct sp_cuda_queue *q, void *event);
#endif
