/* Flights. Callers hold the queue's lock. */
#ifndef SP_CUDA_FLIGHT_H
#define SP_CUDA_FLIGHT_H
#include "queue.h"

struct sp_cuda_flight *sp_cuda_flight_new(const void *records, size_t nbytes);
/* Releases its resources and frees it. */
void sp_cuda_flight_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* As drop, but leaves its page-locked memory alone, which the driver may still use. */
void sp_cuda_flight_abandon(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
