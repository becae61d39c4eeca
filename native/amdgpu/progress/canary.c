/* Tests the rings of a queue after a reset. A canary is a job of NOPs that runs before any other
 * job and should end within a second. The test is needed because the kernel driver may report a
 * successful reset although the ring is dead. On Linux 6.17 the command processor then faults at
 * address 0 (ROCm issues 5997 and 6127).
 *
 * The `ring` of an IB chunk names an entity of the context. The kernel driver gives an idle entity
 * the least busy hardware ring, the first of several (amdgpu_ctx_init_entity, drm_sched_pick_best).
 * A canary that hangs keeps its ring busy, so the next canary gets another ring. Each canary has
 * its own context, because the kernel driver ends all jobs of a context in which a job hung. Later
 * the kernel driver may choose the dead ring again. A job that hangs there starts this test
 * again. */
#include "canary.h"
#include "amdgpu/flight/context.h"
#include "core/base.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { TRIES = 4 /* compute entities to try */, DMA_ENTITIES = 2, BUSY_TRIES = 100 };
static const uint64_t CANARY_NS = 1000000000, SLICE_NS = 100 * 1000000;
/* longest wait for a canary: all rings may be busy with the work of other processes */
static const uint64_t PATIENCE_NS = UINT64_C(15) * 1000000000;

struct canary {
    uint32_t ctx;
    uint32_t entity[SP_ENGINES];
    /* sequence number of the canary on each engine; 0 if none was sent there */
    uint64_t seq[SP_ENGINES];
    int rc; /* 0 if the canary succeeded, -ETIMEDOUT while it runs, otherwise its error */
};

static int send(struct sp_amdgpu_queue *q, struct canary *c, int kind)
{
    const struct sp_engine *e = &q->engine[kind];
    struct drm_amdgpu_bo_list_entry entry = {.bo_handle = e->ring->bo->handle};
    struct drm_amdgpu_bo_list_in list = {
        .operation = UINT32_MAX, .list_handle = UINT32_MAX, .bo_number = 1, .bo_info_size = sizeof entry,
        .bo_info_ptr = (uint64_t)(uintptr_t)&entry};
    struct drm_amdgpu_cs_chunk_ib ib = {.ip_type = e->ip, .ring = c->entity[kind], .ib_bytes = SP_CANARY_NBYTES,
                                        .va_start = e->ring->va + sp_canary_at(e)};
    struct drm_amdgpu_cs_chunk chunk[2] = {
        {AMDGPU_CHUNK_ID_IB, sizeof ib / 4, (uint64_t)(uintptr_t)&ib},
        {AMDGPU_CHUNK_ID_BO_HANDLES, sizeof list / 4, (uint64_t)(uintptr_t)&list}};
    uint64_t chunks[2] = {(uint64_t)(uintptr_t)&chunk[0], (uint64_t)(uintptr_t)&chunk[1]};
    union drm_amdgpu_cs args;
    int rc = -ENOMEM;
    for (int i = 0; rc == -ENOMEM && i < BUSY_TRIES; i++) {
        memset(&args, 0, sizeof args);
        args.in = (struct drm_amdgpu_cs_in){
            .ctx_id = c->ctx, .num_chunks = e->ring->listed ? 2 : 1, .chunks = (uint64_t)(uintptr_t)chunks};
        rc = sp_amdgpu_ioctl(q->dev, DRM_IOCTL_AMDGPU_CS, &args);
        if (rc == -ENOMEM)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    c->seq[kind] = rc < 0 ? 0 : args.out.handle;
    return rc < 0 ? rc : 0;
}

/* Waits until the canary ends, at most until `deadline_ns`. Stores the result in `c->rc`. */
static void listen(struct sp_amdgpu_queue *q, struct canary *c, uint64_t deadline_ns)
{
    c->rc = 0;
    for (int i = 0; c->rc == 0 && i < SP_ENGINES; i++) {
        union drm_amdgpu_wait_cs args;
        memset(&args, 0, sizeof args);
        args.in = (struct drm_amdgpu_wait_cs_in){.handle = c->seq[i], .timeout = deadline_ns, .ip_type = q->engine[i].ip,
                                                 .ring = c->entity[i], .ctx_id = c->ctx};
        if (!c->seq[i])
            continue;
        int rc = sp_amdgpu_ioctl(q->dev, DRM_IOCTL_AMDGPU_WAIT_CS, &args);
        int asked = rc != -EINTR && rc != -EAGAIN && rc != -ENOMEM;
        c->rc = !asked || (rc == 0 && args.out.status) ? -ETIMEDOUT : rc;
    }
}

/* Sends a canary to one entity after another until one succeeds. Returns the index of that canary,
 * or -1. `canaries` receives the `n` canaries that were sent. */
static int try_all(struct sp_amdgpu_queue *q, struct canary *canaries, int *n, int with_dma)
{
    for (*n = 0; *n < TRIES;) {
        struct canary *c = &canaries[*n];
        *c = (struct canary){.ctx = q->ctx, .entity = {(uint32_t)*n, (uint32_t)*n % DMA_ENTITIES}};
        if (*n && (c->rc = sp_amdgpu_context_new(q->dev, &c->ctx)) < 0)
            return -1;
        ++*n;
        for (int i = 0; c->rc == 0 && i < SP_ENGINES; i++)
            if (i == SP_ENGINE_COMPUTE || with_dma)
                c->rc = send(q, c, i);
        if (c->rc == 0)
            listen(q, c, sp_clock_ns() + CANARY_NS);
        if (c->rc == 0)
            return *n - 1;
    }
    return -1;
}

/* Waits for canaries that are still running. A late canary may only have waited for the work of
 * other processes. Returns the index of the first that succeeds, or -1. */
static int wait_for_any(struct sp_amdgpu_queue *q, struct canary *canaries, int n)
{
    uint64_t until = sp_clock_ns() + PATIENCE_NS;
    for (int late = 1; late && sp_clock_ns() < until;) {
        late = 0;
        for (int i = 0; i < n; i++) {
            if (canaries[i].rc != -ETIMEDOUT)
                continue;
            listen(q, &canaries[i], sp_clock_ns() + SLICE_NS);
            if (canaries[i].rc == 0)
                return i;
            late |= canaries[i].rc == -ETIMEDOUT;
        }
    }
    return -1;
}

/* Makes the context of canary `chosen` the context of the queue, and frees the contexts of the
 * other canaries. If `chosen` is -1, the queue gets the context of canary 0, which is unusable. */
static void settle(struct sp_amdgpu_queue *q, const struct canary *canaries, int n, int chosen)
{
    const struct canary *c = &canaries[chosen < 0 ? 0 : chosen];
    for (int i = 0; i < n; i++)
        if (&canaries[i] != c)
            sp_amdgpu_context_free(q->dev, canaries[i].ctx);
    q->ctx = c->ctx;
    for (int i = 0; i < SP_ENGINES; i++)
        q->engine[i].entity = c->entity[i];
    q->again.ib.ring = c->entity[SP_ENGINE_COMPUTE];
    q->request.ib.ring = c->entity[q->request.ib.ip_type == AMDGPU_HW_IP_DMA ? SP_ENGINE_DMA : SP_ENGINE_COMPUTE];
}

int sp_amdgpu_canary(struct sp_amdgpu_queue *q)
{
    struct canary canaries[TRIES];
    int n, with_dma = q->engine[SP_ENGINE_DMA].jobs > 0 && !atomic_load(&q->dev->no_dma);
    int chosen = try_all(q, canaries, &n, with_dma);
    if (chosen < 0 && with_dma) { /* perhaps only the copy engine is dead */
        settle(q, canaries, n, -1);
        sp_amdgpu_context_free(q->dev, q->ctx);
        q->ctx = 0;
        int rc = sp_amdgpu_context_new(q->dev, &q->ctx);
        if (rc < 0)
            return rc;
        atomic_store(&q->dev->no_dma, 1);
        chosen = try_all(q, canaries, &n, 0);
    }
    if (chosen < 0)
        chosen = wait_for_any(q, canaries, n);
    settle(q, canaries, n, chosen);
    if (chosen == 0)
        return 0;
    atomic_store(&q->dev->suspect, 1);
    if (chosen >= 0)
        return sp_amdgpu_intact(q->dev); /* a reset during the test may have erased VRAM */
    sp_amdgpu_lose(q->dev, "no ring of the GPU runs a job after a reset; close the device and open it again");
    return -ENODEV;
}
