/* Marks: a mark is an event that is recorded after several launches, which have no events of their
 * own. The caller of each function holds the queue's lock. */
#ifndef SP_CUDA_MARK_H
#define SP_CUDA_MARK_H
#include "queue.h"

/* Records an event before further launches if a waiting thread has found the stream busy. That
 * thread then queries the event instead. The stream itself would stay busy for as long as other
 * threads go on launching. */
void sp_cuda_mark_asked(struct sp_cuda_queue *q);
/* Records an event after the launches so far. */
void sp_cuda_mark(struct sp_cuda_queue *q);
#endif
