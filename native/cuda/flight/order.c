/* Orders work: records events after work, makes one stream wait for another, and makes a queue wait
 * for the zeroing of memory. */
#include "order.h"
#include "cuda/device/context.h"
#include "events.h"
#include "failure.h"

int sp_cuda_event_take(struct sp_cuda_queue *q, int timing, void **event)
{
    if (q->nidle[timing]) {
        *event = q->idle[timing][--q->nidle[timing]];
        return 0;
    }
    *event = NULL;
    /* A new event belongs to the current context, so our context must be current. */
    int rc = sp_cuda_enter(q->dev);
    return rc ? rc : SP_CUDA_Q(q, cuEventCreate, event, timing ? 0 : CU_EVENT_DISABLE_TIMING);
}

int sp_cuda_chain(struct sp_cuda_queue *q, void *sooner, void *later)
{
    void *event;
    int rc = sp_cuda_event_take(q, 0, &event);
    if (rc)
        return rc;
    rc = SP_CUDA_Q(q, cuEventRecord, event, sooner);
    if (rc == 0)
        rc = SP_CUDA_Q(q, cuStreamWaitEvent, later, event, 0);
    /* A submitted wait is not affected if its event is recorded again. So the event can be reused
     * at once. */
    sp_cuda_event_give(q, 0, event);
    return rc;
}

int sp_cuda_order_memory(struct sp_cuda_queue *q)
{
    struct sp_cuda *dev = q->dev;
    if (__builtin_expect(atomic_load_explicit(&dev->memory_turn, memory_order_acquire) == q->memory_turn, 1))
        return 0;
    int rc = sp_cuda_enter(dev);
    if (rc)
        return rc;
    pthread_mutex_lock(&dev->lock);
    uint64_t turn = atomic_load(&dev->memory_turn);
    rc = SP_CUDA_Q(q, cuStreamWaitEvent, q->stream, dev->memory_event, 0);
    if (rc == 0)
        q->memory_turn = turn;
    pthread_mutex_unlock(&dev->lock);
    return rc;
}
