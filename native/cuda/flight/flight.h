/* Flights. Callers hold the queue's lock. */
#ifndef SP_CUDA_FLIGHT_H
#define SP_CUDA_FLIGHT_H
#include "queue.h"

struct sp_cuda_flight *sp_cuda_flight_new(const void *records, size_t nbytes);
/* Gives back what it holds, and frees it. */
void sp_cuda_flight_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* The same when the driver may still use its page-locked memory, which is left alone then. */
void sp_cuda_flight_abandon(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
