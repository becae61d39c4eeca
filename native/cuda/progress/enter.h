/* Enters a queue for a submission. */
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
/* As sp_queue_enter, for submissions; sp_cuda_queue_leave ends it. */
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
