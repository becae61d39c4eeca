/* Events after work, and streams that wait for events. 0 or -errno. */
#ifndef SP_CUDA_ORDER_H
#define SP_CUDA_ORDER_H
#include "queue.h"

int sp_cuda_event_take(struct sp_cuda_queue *q, int timing, void **event);
/* Stream `later` waits for all work of `sooner`. */
int sp_cuda_chain(struct sp_cuda_queue *q, void *sooner, void *later);
/* The queue's stream waits for all zeroing of memory so far. */
int sp_cuda_order_memory(struct sp_cuda_queue *q);
#endif
