/* Submits a flight. The caller of each function holds the queue's lock. */
#ifndef SP_CUDA_SUBMISSION_H
#define SP_CUDA_SUBMISSION_H
#include "queue.h"

/* Gives a flight its end event, from the queue's pool. On a timing queue, also records the start
 * event. Returns 0 or -errno. */
int sp_cuda_flight_begin(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
int64_t sp_cuda_flight_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc);
/* Appends a flight to the queue's list of flights, and returns its timeline value. */
int64_t sp_cuda_flight_list(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
