/* Returns the timeline value that a queue has reached, for callers without the queue's lock. */
#include "core/base.h"
#include "progress.h"

static const uint64_t LOOK_NS = 20 * 1000000;

/* Returns 1 if a value on the fence page has changed, 0 if none has, -1 if the queue is closed. */
static int moved(struct sp_amdgpu_queue *q)
{
    volatile uint64_t *page = sp_amdgpu_pin(q);
    if (!page)
        return -1;
    int rc = 0;
    for (int i = 0; i < SP_ENGINES; i++)
        rc |= __atomic_load_n(page + i, __ATOMIC_ACQUIRE) != atomic_load(&q->seen[i]);
    sp_amdgpu_unpin(q);
    return rc;
}

/* Returns the value that the queue has reached. Usually this reads only eight bytes per engine from
 * the fence page. If these bytes have changed, this retires ended submissions. If they have stayed
 * the same for LOOK_NS, this looks for failed jobs. */
uint64_t sp_amdgpu_reached(void *queue)
{
    struct sp_amdgpu_queue *const q = queue;
    uint64_t reached = atomic_load(&q->reached);
    if (reached == sp_queue_newest(&q->common) || !sp_queue_usable(&q->common))
        return reached;
    int rc = moved(q);
    if (rc < 0 || (rc == 0 && sp_clock_ns() - atomic_load(&q->looked_ns) < LOOK_NS))
        return reached;
    if (pthread_mutex_trylock(q->common.lock))
        return reached;
    if (q->sending)
        q->push(q, 0);
    if (rc)
        sp_amdgpu_retire(q);
    else
        sp_amdgpu_inspect(q);
    pthread_mutex_unlock(q->common.lock);
    return atomic_load(&q->reached);
}
