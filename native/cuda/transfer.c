/* Copies to and from the host and between GPUs. What is large goes over the bus on a stream of its own, to or from scratch
 * memory of the GPU, while the queue's stream works on what was submitted before; within the GPU it is then copied in order. */
#include "device.h"

#include <errno.h>
#include <string.h>

/* Below this a copy over the bus (2 us at 32 GB/s) costs no more than the events that would get it out of the way. */
static const uint64_t SMALL_NBYTES = 64 << 10;

static int failed(struct sp_cuda_queue *q, const char *call, int result)
{
    return sp_cuda_failed(q, call, result);
}

static int side_stream(struct sp_cuda_queue *q, void **stream)
{
    void *made = NULL;
    if (*stream)
        return 0;
    int rc = SP_CU_RC(cuStreamCreate, &made, CU_STREAM_NON_BLOCKING);
    pthread_mutex_lock(&q->dev->lock);
    *stream = made;
    pthread_mutex_unlock(&q->dev->lock);
    return rc;
}

/* Is there a side stream and scratch memory for so much? Without, the queue's own stream does it all. */
static int scratch(struct sp_cuda_queue *q, uint64_t nbytes, void **stream, void *order, uint64_t *address)
{
    if (nbytes < SMALL_NBYTES || !q->dev->pool || side_stream(q, stream))
        return 0;
    return sp_cuMemAllocAsync(address, nbytes, order ? order : *stream) == CU_OK;
}

static int send(struct sp_cuda_queue *q, uint64_t dst, const struct sp_cuda_flight *f, uint64_t nbytes)
{
    uint64_t between;
    if (!scratch(q, nbytes, &q->up, NULL, &between))
        return failed(q, "cuMemcpyHtoDAsync", sp_cuMemcpyHtoDAsync_v2(dst, f->staging, nbytes, q->stream));
    int rc = failed(q, "cuMemcpyHtoDAsync", sp_cuMemcpyHtoDAsync_v2(between, f->staging, nbytes, q->up));
    if (rc == 0)
        rc = sp_cuda_chain(q, q->up, q->stream);
    if (rc == 0)
        rc = failed(q, "cuMemcpyAsync", sp_cuMemcpyAsync(dst, between, nbytes, q->stream));
    sp_cuMemFreeAsync(between, rc ? q->up : q->stream); /* failed: the stream may not wait for the copy */
    return rc;
}

static int fetch(struct sp_cuda_queue *q, uint64_t src, const struct sp_cuda_flight *f, uint64_t nbytes, void **last)
{
    uint64_t between;
    *last = q->stream;
    if (!scratch(q, nbytes, &q->down, q->stream, &between))
        return failed(q, "cuMemcpyDtoHAsync", sp_cuMemcpyDtoHAsync_v2(f->staging, src, nbytes, q->stream));
    int rc = failed(q, "cuMemcpyAsync", sp_cuMemcpyAsync(between, src, nbytes, q->stream));
    if (rc == 0)
        rc = sp_cuda_chain(q, q->stream, q->down);
    if (rc == 0)
        rc = failed(q, "cuMemcpyDtoHAsync", sp_cuMemcpyDtoHAsync_v2(f->staging, between, nbytes, q->down));
    sp_cuMemFreeAsync(between, rc ? q->stream : q->down);
    *last = q->down;
    return rc;
}

/* A flight for a transfer, with staging, its record for those who ask what runs, and its beginning handed over. */
static int start(struct sp_cuda_queue *q, uint64_t dst, uint64_t src, uint64_t nbytes, int staged,
                 struct sp_cuda_flight **out)
{
    struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = dst, .src = src, .count = nbytes};
    struct sp_cuda_flight *f = sp_cuda_flight_new(&c, sizeof c);
    *out = f;
    if (!f)
        return -ENOMEM;
    int rc = staged ? sp_cuda_pinned_take(q->dev, nbytes, &f->staging, &f->staging_nbytes) : 0;
    return rc ? rc : sp_cuda_flight_begin(q, f);
}

static int64_t finish(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc)
{
    if (!f)
        return sp_queue_leave(&q->q, rc);
    f->ncalls = f->end != NULL; /* whatever failed then, some of it may be on its way and use the staging memory */
    return sp_queue_leave(&q->q, sp_cuda_flight_end(q, f, stream, rc));
}

int64_t sp_cuda_upload(struct sp_cuda_queue *q, uint64_t address, const void *data, uint64_t nbytes)
{
    struct sp_cuda_flight *f;
    int rc = sp_queue_enter(&q->q, SP_ANY_EPOCH);
    if (rc)
        return rc;
    if (nbytes == 0)
        return sp_queue_leave(&q->q, (int64_t)sp_queue_submitted(&q->q));
    rc = start(q, address, (uint64_t)(uintptr_t)data, nbytes, 1, &f);
    if (rc == 0) {
        memcpy(f->staging, data, nbytes);
        rc = send(q, address, f, nbytes);
    }
    return finish(q, f, q->stream, rc);
}

int64_t sp_cuda_download(struct sp_cuda_queue *q, uint64_t address, void *data, uint64_t nbytes)
{
    struct sp_cuda_flight *f;
    void *last = q->stream;
    int rc = sp_queue_enter(&q->q, SP_ANY_EPOCH);
    if (rc)
        return rc;
    if (nbytes == 0)
        return sp_queue_leave(&q->q, (int64_t)sp_queue_submitted(&q->q));
    rc = start(q, (uint64_t)(uintptr_t)data, address, nbytes, 1, &f);
    if (rc == 0) {
        f->out = data;
        f->out_nbytes = nbytes;
        rc = fetch(q, address, f, nbytes, &last);
    }
    if (rc && f)
        f->out = NULL;
    return finish(q, f, last, rc);
}

/* Direct access, where the machine has it; cuMemcpyPeerAsync goes by way of the host where it has not. */
static void befriend(struct sp_cuda *dev, struct sp_cuda *peer)
{
    uint32_t bit = peer->info.ordinal < 32 ? 1u << peer->info.ordinal : 0;
    int can = 0;
    if (dev->peers & bit || !bit)
        return;
    dev->peers |= bit;
    if (sp_cuDeviceCanAccessPeer(&can, dev->handle, peer->handle) != CU_OK || !can)
        return;
    sp_cuCtxEnablePeerAccess(peer->context, 0); /* or it is on already */
    struct sp_cu_access access = {CU_LOCATION_DEVICE, dev->handle, CU_ACCESS_READWRITE};
    if (peer->pool)
        sp_cuMemPoolSetAccess(peer->pool, &access, 1);
}

/* Memory of the peer that is still being zeroed. */
static int order_peer(struct sp_cuda_queue *q, struct sp_cuda *peer)
{
    pthread_mutex_lock(&peer->lock);
    int result = sp_cuStreamWaitEvent(q->stream, peer->memory_event, 0);
    pthread_mutex_unlock(&peer->lock);
    return failed(q, "cuStreamWaitEvent", result);
}

int64_t sp_cuda_copy_peer(struct sp_cuda_queue *q, uint64_t dst, struct sp_cuda *peer, uint64_t src, uint64_t nbytes)
{
    struct sp_cuda_flight *f;
    int rc = sp_queue_enter(&q->q, SP_ANY_EPOCH);
    if (rc)
        return rc;
    rc = start(q, dst, src, nbytes, 0, &f);
    if (rc == 0)
        befriend(q->dev, peer);
    if (rc == 0)
        rc = order_peer(q, peer);
    if (rc == 0 && nbytes)
        rc = failed(q, "cuMemcpyPeerAsync",
                    sp_cuMemcpyPeerAsync(dst, q->dev->context, src, peer->context, nbytes, q->stream));
    return finish(q, f, q->stream, rc);
}
