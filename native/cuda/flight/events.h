/* A queue's pool of events. `timing`: timed events. */
#ifndef SP_CUDA_EVENTS_H
#define SP_CUDA_EVENTS_H
#include "queue.h"

void sp_cuda_event_give(struct sp_cuda_queue *q, int timing, void *event);
void sp_cuda_events_drop(struct sp_cuda_queue *q);
/* CLOCK_MONOTONIC, in ns, at which a timed event ended. May keep `*event` and replace it by
 * another. */
uint64_t sp_cuda_event_ns(struct sp_cuda *dev, void **event);
#endif
