/* Keeps a queue's pool of free events, and converts the time of a timed event to ns of
 * CLOCK_MONOTONIC. */
#include "events.h"
#include "cuda/device/driver.h"

#include <stdlib.h>

/* Largest time in ms between an event and the anchor, an event whose CLOCK_MONOTONIC time is known.
 * cuEventElapsedTime returns a float of milliseconds, whose steps are 30 ns at 500 ms. So an event
 * further away becomes the new anchor. */
static const float FAR_MS = 500;

void sp_cuda_event_give(struct sp_cuda_queue *q, int timing, void *event)
{
    if (!event)
        return;
    if (q->nidle[timing] == q->most_idle[timing]) {
        uint32_t most = q->most_idle[timing] ? 2 * q->most_idle[timing] : 16;
        void **more = realloc(q->idle[timing], most * sizeof *more);
        if (!more) {
            sp_cuEventDestroy_v2(event);
            return;
        }
        q->idle[timing] = more;
        q->most_idle[timing] = most;
    }
    q->idle[timing][q->nidle[timing]++] = event;
}

void sp_cuda_events_drop(struct sp_cuda_queue *q)
{
    for (int timing = 0; timing < 2; timing++) {
        while (q->nidle[timing])
            sp_cuEventDestroy_v2(q->idle[timing][--q->nidle[timing]]);
        free(q->idle[timing]);
        q->idle[timing] = NULL;
        q->most_idle[timing] = 0;
    }
}

uint64_t sp_cuda_event_ns(struct sp_cuda *dev, void **event)
{
    float ms = 0;
    pthread_mutex_lock(&dev->lock);
    int result = sp_cuEventElapsedTime(&ms, dev->anchor, *event);
    uint64_t ns = result == CU_OK ? dev->anchor_ns + (uint64_t)(int64_t)((double)ms * 1e6) : 0;
    if (result == CU_OK && ms > FAR_MS) {
        void *anchor = dev->anchor;
        dev->anchor = *event;
        dev->anchor_ns = ns;
        *event = anchor;
    }
    pthread_mutex_unlock(&dev->lock);
    return ns;
}
