/* A queue's pool of free events. `timing` selects the events that record a time. */
#ifndef SP_CUDA_EVENTS_H
#define SP_CUDA_EVENTS_H
#include "queue.h"

void sp_cuda_event_give(struct sp_cuda_queue *q, int timing, void *event);
void sp_cuda_events_drop(struct sp_cuda_queue *q);
/* Returns the CLOCK_MONOTONIC time in ns at which a timed event ended. May keep `*event` as the new
 * anchor and store the old anchor there. */
uint64_t sp_cuda_event_ns(struct sp_cuda *dev, void **event);
#endif
