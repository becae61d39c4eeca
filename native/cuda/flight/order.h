/* Orders work by events, and makes streams wait for events. Each function returns 0 or -errno. */
#ifndef SP_CUDA_ORDER_H
#define SP_CUDA_ORDER_H
#include "queue.h"

int sp_cuda_event_take(struct sp_cuda_queue *q, int timing, void **event);
/* Makes stream `later` wait for all work that was submitted to stream `sooner` before this call. */
int sp_cuda_chain(struct sp_cuda_queue *q, void *sooner, void *later);
/* Makes the queue's stream wait until all memory that was allocated so far is zeroed. */
int sp_cuda_order_memory(struct sp_cuda_queue *q);
#endif
