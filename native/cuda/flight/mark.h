/* Events behind launches, which have none of their own. Callers hold the queue's lock. */
#ifndef SP_CUDA_MARK_H
#define SP_CUDA_MARK_H
#include "queue.h"

/* Who waits for what was launched so far asks the stream. Before more comes, it gets an event, so that who launches on and
 * on does not keep others waiting. */
void sp_cuda_mark_asked(struct sp_cuda_queue *q);
/* An event behind what was launched so far. */
void sp_cuda_mark(struct sp_cuda_queue *q);
#endif
