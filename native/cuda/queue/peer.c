/* Copies memory between two GPUs. */
#include "cuda/flight/failure.h"
#include "cuda/progress/enter.h"
#include "cuda/progress/staging.h"

#include <errno.h>

int sp_cuda_reaches(struct sp_cuda *dev, struct sp_cuda *peer)
{
    int can = 0;
    return sp_cuDeviceCanAccessPeer(&can, dev->handle, peer->handle) == CU_OK && can;
}

/* Enables direct access to the peer's memory if the machine supports it. Otherwise
 * cuMemcpyPeerAsync copies through the host. The device's lock ensures that only one queue at a
 * time enables the access. */
static void enable_peer_access(struct sp_cuda *dev, struct sp_cuda *peer)
{
    uint32_t bit = peer->info.ordinal < 32 ? 1u << peer->info.ordinal : 0;
    pthread_mutex_lock(&dev->lock);
    if (bit && !(dev->peers & bit) && sp_cuda_reaches(dev, peer)) {
        /* fails without harm if access is already enabled */
        sp_cuCtxEnablePeerAccess(peer->context, 0);
        struct sp_cu_access access = {CU_LOCATION_DEVICE, dev->handle, CU_ACCESS_READWRITE};
        if (peer->pool)
            sp_cuMemPoolSetAccess(peer->pool, &access, 1);
    }
    dev->peers |= bit;
    pthread_mutex_unlock(&dev->lock);
}

/* Makes the queue's stream wait until the peer's new memory is zeroed. */
static int order_peer(struct sp_cuda_queue *q, struct sp_cuda *peer)
{
    pthread_mutex_lock(&peer->lock);
    int result = sp_cuStreamWaitEvent(q->stream, peer->memory_event, 0);
    pthread_mutex_unlock(&peer->lock);
    return sp_cuda_failed(q, "cuStreamWaitEvent", result);
}

int64_t sp_cuda_copy_peer(struct sp_cuda_queue *q, uint64_t dst, struct sp_cuda *peer, uint64_t src, uint64_t nbytes)
{
    struct sp_cuda_flight *f;
    int rc = sp_cuda_queue_enter(q, SP_ANY_EPOCH);
    if (rc)
        return rc;
    rc = sp_cuda_transfer_begin(q, dst, src, nbytes, &f);
    if (rc == 0)
        enable_peer_access(q->dev, peer);
    if (rc == 0)
        rc = order_peer(q, peer);
    if (rc == 0 && nbytes) {
        f->ncalls = 1;
        rc = sp_cuda_failed(q, "cuMemcpyPeerAsync",
                            sp_cuMemcpyPeerAsync(dst, q->dev->context, src, peer->context, nbytes, q->stream));
    }
    return sp_cuda_queue_leave(q, sp_cuda_transfer_end(q, f, q->stream, rc));
}
