/* Locks a queue to submit work. */
#ifndef SP_CUDA_ENTER_H
#define SP_CUDA_ENTER_H
#include "cuda/device/driver.h"
#include "cuda/flight/mark.h"
#include "pieces.h"

static inline int64_t sp_cuda_queue_leave(struct sp_cuda_queue *q, int64_t rc)
{
    sp_cuda_leave();
    return sp_queue_leave(&q->q, rc);
}
/* Locks the queue to submit work, like sp_queue_enter. The caller must end with
 * sp_cuda_queue_leave. Later work comes after an open download, so this first submits the rest of
 * that download. */
static inline int sp_cuda_queue_enter(struct sp_cuda_queue *q, uint64_t epoch)
{
    int rc = sp_queue_enter(&q->q, epoch);
    if (__builtin_expect(rc == 0 && (q->asked != 0 || q->open != NULL), 0)) {
        if (q->asked)
            sp_cuda_mark_asked(q);
        if (q->open)
            sp_cuda_settle(q);
        if (atomic_load(&q->dev->common.lost))
            rc = (int)sp_cuda_queue_leave(q, -ENODEV);
    }
    return rc;
}
#endif
