/* Events of a queue, used again. `timing`: with times. */
#ifndef SP_CUDA_EVENTS_H
#define SP_CUDA_EVENTS_H
#include "queue.h"

void sp_cuda_event_give(struct sp_cuda_queue *q, int timing, void *event);
void sp_cuda_events_drop(struct sp_cuda_queue *q);
/* CLOCK_MONOTONIC at which an event with times ended. May take `*event` and give another for it. */
uint64_t sp_cuda_event_ns(struct sp_cuda *dev, void **event);
#endif
