/* A flight becomes a submission. Callers hold the queue's lock. */
#ifndef SP_CUDA_SUBMISSION_H
#define SP_CUDA_SUBMISSION_H
#include "queue.h"

/* The start of a submission of a timing queue, the end of any: 0 or -errno. */
int sp_cuda_flight_begin(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
int64_t sp_cuda_flight_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc);
/* Its value: from now on it has been submitted. */
int64_t sp_cuda_flight_list(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
