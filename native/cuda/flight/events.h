/* A queue's pool of free events. `timing` selects the events that record a time. */
#ifndef SP_CUDA_EVENTS_H
#define SP_CUDA_EVENTS_H
#include "queue.h"

void sp_cuda_event_give(struct sp_cuda_queue *q, int timing, void *event);
void sp_cuda_events_drop(struct sp_cuda_queue *q);
/* Returns the CLOCK_MONOTONIC time in ns at which a timed event ended. The anchor is an event whose
 * time is known. If the anchor ended too long before this event, the device keeps this event as its
 * new anchor, and `*event` receives the event of the old anchor. */
uint64_t sp_cuda_event_ns(struct sp_cuda *dev, void **event);
#endif
