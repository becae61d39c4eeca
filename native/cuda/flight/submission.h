/* Submits a flight. Callers hold the queue's lock. */
#ifndef SP_CUDA_SUBMISSION_H
#define SP_CUDA_SUBMISSION_H
#include "queue.h"

/* Records the start event (timing queues) and makes the end event. 0 or -errno. */
int sp_cuda_flight_begin(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
int64_t sp_cuda_flight_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc);
/* Appends it to the submissions in flight and returns its value. */
int64_t sp_cuda_flight_list(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
