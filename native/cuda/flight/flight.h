/* A flight is a submission in flight that ends with an event. The caller of each function holds the
 * queue's lock. */
#ifndef SP_CUDA_FLIGHT_H
#define SP_CUDA_FLIGHT_H
#include "queue.h"

struct sp_cuda_flight *sp_cuda_flight_new(const void *records, size_t nbytes);
/* Returns the events, slots and memory of a flight to their pools, and frees the flight. */
void sp_cuda_flight_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* Frees a flight like sp_cuda_flight_drop, but not its page-locked memory, which the driver may
 * still use. */
void sp_cuda_flight_abandon(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
