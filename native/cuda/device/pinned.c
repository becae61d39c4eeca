/* A pool of page-locked host memory. The pool exists because the driver takes a millisecond or more
 * to lock pages, and waits for the whole device before it unlocks any. */
#include "pinned.h"
#include "context.h"
#include "lost.h"

#include <errno.h>

enum { LEAST_SHIFT = 12, MOST_SHIFT = 47 };
/* most bytes that the pool keeps; memory above this goes back to the driver */
static const uint64_t KEPT_NBYTES = UINT64_C(512) << 20;

int sp_cuda_pinned_take(struct sp_cuda *dev, uint64_t nbytes, void **host, uint64_t *got)
{
    int shift = LEAST_SHIFT;
    while (shift <= MOST_SHIFT && UINT64_C(1) << shift < nbytes)
        shift++;
    if (shift > MOST_SHIFT)
        return -ENOMEM;
    *got = UINT64_C(1) << shift;
    pthread_mutex_lock(&dev->lock);
    struct sp_cuda_pinned *kept = dev->pinned[shift];
    if (kept) {
        dev->pinned[shift] = kept->next;
        dev->pinned_nbytes -= *got;
    }
    pthread_mutex_unlock(&dev->lock);
    *host = kept;
    if (kept)
        return 0;
    int rc = sp_cuda_enter(dev);
    return rc ? rc : SP_CUDA_RC(dev, cuMemHostAlloc, host, *got, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
}

static int shift_of(uint64_t nbytes)
{
    return 63 - __builtin_clzll(nbytes);
}

void sp_cuda_pinned_give(struct sp_cuda *dev, void *host, uint64_t got)
{
    if (!host)
        return;
    struct sp_cuda_pinned *kept = host;
    pthread_mutex_lock(&dev->lock);
    int keep = dev->pinned_nbytes + got <= KEPT_NBYTES && !atomic_load(&dev->common.lost);
    if (keep) {
        kept->next = dev->pinned[shift_of(got)];
        dev->pinned[shift_of(got)] = kept;
        dev->pinned_nbytes += got;
    }
    pthread_mutex_unlock(&dev->lock);
    if (!keep && sp_cuda_enter(dev) == 0)
        sp_cuMemFreeHost(host);
}

void sp_cuda_pinned_drop(struct sp_cuda *dev)
{
    for (int shift = 0; shift < SP_CUDA_CLASSES; shift++) {
        while (dev->pinned[shift]) {
            struct sp_cuda_pinned *one = dev->pinned[shift];
            dev->pinned[shift] = one->next;
            sp_cuMemFreeHost(one);
        }
    }
    dev->pinned_nbytes = 0;
}
