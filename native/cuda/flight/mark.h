/* Events after launches, which have no event of their own. Callers hold the queue's lock. */
#ifndef SP_CUDA_MARK_H
#define SP_CUDA_MARK_H
#include "queue.h"

/* A waiting thread queries the stream. This records an event before further launches, so that
 * continuous launches do not delay the waiter. */
void sp_cuda_mark_asked(struct sp_cuda_queue *q);
/* Records an event after the launches so far. */
void sp_cuda_mark(struct sp_cuda_queue *q);
#endif
