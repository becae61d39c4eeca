/* The end of a job: drops its references, signals its fence, frees it. */
#include "jobs.h"
#include "order.h"
#include "emu/kmd/memory/memory.h"
#include "emu/kmd/sync/sync.h"

static void detach(struct kmd_entity *entity)
{
    struct kmd_ring *ring = entity->ring;
    for (uint32_t i = 0; i < ring->entities; i++) {
        if (ring->entity[i] == entity) {
            ring->entity[i] = ring->entity[--ring->entities];
            break;
        }
    }
    entity->ring = NULL;
}

void kmd_job_free(struct kmd_job *job)
{
    kmd_order_end(job);
    kmd_fence_put(job->wait);
    kmd_bo_list_put(job->list);
    kmd_bo_put(job->fence_bo);
    kmd_vm_put(job->view.vm);
    kmd_fence_put(job->fence);
    job->machine->live.jobs--;
    free(job->ib);
    free(job);
}

void kmd_job_finish(struct kmd_job *job, int error)
{
    struct kmd_entity *entity = job->entity;
    struct kmd_ctx *ctx = entity->ctx;
    struct kmd_machine *machine = ctx->card->machine;
    kmd_trace(machine, "job card=%u ip=%u seq=%llu done: %d", ctx->card->index, entity->ip, (unsigned long long)job->seq,
              error);
    entity->first = job->next;
    entity->error = error ? error : entity->error;
    entity->ring->load--;
    if (!entity->first) {
        entity->last = NULL;
        detach(entity);
    }
    struct kmd_fence *fence = kmd_fence_get(job->fence);
    /* The job is freed before its fence signals. A thread that the signal wakes may count the
     * machine's live objects. */
    kmd_job_free(job);
    kmd_ctx_put(ctx);
    kmd_fence_signal(fence, error);
    kmd_fence_put(fence);
}
