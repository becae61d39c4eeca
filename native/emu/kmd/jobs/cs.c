/* The ioctl CS: reads the chunks of a submission into a job. It has no effect before all checks
 * have passed. */
#include "cs.h"
#include "emu/kmd/state/handlers.h"
#include "jobs.h"
#include "order.h"
#include "emu/kmd/memory/memory.h"
#include "emu/kmd/sync/sync.h"

#include <string.h>

enum { MOST_CHUNKS = 4096 };

static uint32_t max_ibs(uint32_t ip)
{
    return ip == AMDGPU_HW_IP_GFX ? 192 : ip == AMDGPU_HW_IP_COMPUTE ? 125 : 49;
}

static int add_ib(struct kmd_cs *cs, const struct drm_amdgpu_cs_chunk_ib *chunk)
{
    struct kmd_job *job = cs->job;
    struct kmd_entity *entity;
    int rc = kmd_ctx_entity(cs->ctx, chunk->ip_type, chunk->ip_instance, chunk->ring, &entity);
    if (rc < 0)
        return rc;
    const struct sp_emu_flaw_of *off = sp_emu_flaw(&cs->ctx->card->chip.core, SP_FLAW_RING);
    if (off && off->a == chunk->ip_type)
        return -EINVAL;
    if (entity->error)
        return entity->error;
    /* gangs (IBs for several entities in one submission) are not modelled */
    if (job->entity && job->entity != entity)
        return -EINVAL;
    if (chunk->flags & AMDGPU_IB_FLAG_CE && entity->ip != AMDGPU_HW_IP_GFX)
        return -EINVAL;
    if (job->ibs == max_ibs(entity->ip))
        return -EINVAL;
    struct sp_emu_ib *grown = realloc(job->ib, (job->ibs + 1) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    job->ib = grown;
    job->ib[job->ibs++] = (struct sp_emu_ib){chunk->va_start, chunk->ib_bytes / 4, chunk->flags};
    /* amdgpu_cs_p2_ib silently drops the rest of the last dword; run.c reports it as a fault */
    if (chunk->ib_bytes % 4) {
        job->ragged_va = chunk->va_start;
        job->ragged_nbytes = chunk->ib_bytes;
    }
    job->entity = entity;
    return 0;
}

static int add_user_fence(struct kmd_cs *cs, const struct drm_amdgpu_cs_chunk_fence *chunk)
{
    struct kmd_bo *bo = kmd_idr_get(&cs->file->bos, chunk->handle);
    if (!bo)
        return -EINVAL;
    if (bo->nbytes != KMD_PAGE || chunk->offset > KMD_PAGE - 8 || bo->userptr)
        return -EINVAL;
    /* the kernel driver has BUG_ON(addr & 0x7) in gfx_v10_0_ring_emit_fence and similar
     * functions */
    if (chunk->offset % 8)
        return -EINVAL;
    if (cs->job->fence_bo)
        kmd_bo_put(cs->job->fence_bo);
    kmd_bo_get(bo);
    cs->job->fence_bo = bo;
    cs->job->fence_offset = chunk->offset;
    return 0;
}

static int add_list(struct kmd_cs *cs, const struct drm_amdgpu_bo_list_in *in)
{
    if (cs->list)
        return -EINVAL;
    return kmd_bo_list_read(cs->file, in, &cs->list);
}

static int add_chunk(struct kmd_cs *cs, const struct drm_amdgpu_cs_chunk *chunk, const void *data)
{
    size_t nbytes = (size_t)chunk->length_dw * 4;
    switch (chunk->chunk_id) {
    case AMDGPU_CHUNK_ID_IB:
        return nbytes < sizeof(struct drm_amdgpu_cs_chunk_ib) ? -EINVAL : add_ib(cs, data);
    case AMDGPU_CHUNK_ID_FENCE:
        return nbytes < sizeof(struct drm_amdgpu_cs_chunk_fence) ? -EINVAL : add_user_fence(cs, data);
    case AMDGPU_CHUNK_ID_BO_HANDLES:
        return nbytes < sizeof(struct drm_amdgpu_bo_list_in) ? -EINVAL : add_list(cs, data);
    default:
        return kmd_cs_add_sync(cs, chunk->chunk_id, data, nbytes);
    }
}

static int read_chunk(struct kmd_cs *cs, uint64_t pointer)
{
    struct drm_amdgpu_cs_chunk chunk;
    int rc = kmd_copy_from_user(&chunk, pointer, sizeof(chunk));
    if (rc < 0)
        return rc;
    void *data = kmd_copy_array(chunk.chunk_data, chunk.length_dw, 4, &rc);
    if (rc == 0)
        rc = add_chunk(cs, &chunk, data);
    free(data);
    return rc;
}

static int read_chunks(struct kmd_cs *cs, const struct drm_amdgpu_cs_in *in)
{
    int rc;
    if (in->num_chunks == 0 || in->num_chunks > MOST_CHUNKS)
        return -EINVAL;
    uint64_t *pointer = kmd_copy_array(in->chunks, in->num_chunks, sizeof(*pointer), &rc);
    for (uint32_t i = 0; i < in->num_chunks && rc == 0; i++)
        rc = read_chunk(cs, pointer[i]);
    free(pointer);
    return rc == 0 && !cs->job->entity ? -EINVAL : rc;
}

static int take_list(struct kmd_cs *cs, uint32_t handle)
{
    if (handle == 0)
        return 0;
    cs->list = kmd_idr_get(&cs->file->lists, handle);
    if (!cs->list)
        return -ENOENT;
    cs->list->refs++;
    return 0;
}

/* Makes the job wait for the uses of the listed BOs by other files. Jobs of one file do not wait
 * for each other. */
static int sync_to_others(struct kmd_cs *cs)
{
    for (uint32_t i = 0; cs->list && i < cs->list->count; i++) {
        struct kmd_bo *bo = cs->list->bo[i];
        if (bo->userptr && kmd_userptr_walk(bo) < 0)
            return -EFAULT;
        for (uint32_t k = 0; k < bo->uses.count; k++) {
            const struct kmd_use *use = &bo->uses.at[k];
            if (use->owner == cs->file->serial || use->fence->signalled || bo->flags & AMDGPU_GEM_CREATE_EXPLICIT_SYNC)
                continue;
            int rc = kmd_cs_depend(cs, kmd_fence_get(use->fence));
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

static int note_uses(struct kmd_cs *cs)
{
    const struct kmd_bo_list *list = cs->job->list;
    int rc = kmd_uses_add(&cs->file->uses, cs->job->fence, cs->file->serial);
    for (uint32_t i = 0; list && i < list->count && rc == 0; i++)
        rc = kmd_uses_add(&list->bo[i]->uses, cs->job->fence, cs->file->serial);
    return rc;
}

/* Waits until the entity has fewer than 32 unfinished jobs. */
static int wait_for_room(struct kmd_cs *cs)
{
    struct kmd_entity *entity = cs->job->entity;
    for (;;) {
        const struct kmd_fence *old = entity->fence[entity->next_seq % KMD_ENTITY_JOBS];
        if (!old || old->signalled)
            return 0;
        int rc = kmd_wait_change(cs->ctx->card->machine, cs->ctx->card, KMD_FOREVER);
        if (rc < 0)
            return rc;
    }
}

static bool is_lost(const struct kmd_ctx *ctx)
{
    return ctx->guilty || ctx->card->broken || ctx->vram_lost_counter != ctx->card->vram_lost_counter;
}

static int prepare(struct kmd_cs *cs)
{
    struct kmd_machine *machine = cs->ctx->card->machine;
    struct kmd_job *job = cs->job;
    int rc = sync_to_others(cs);
    if (rc < 0 || (rc = wait_for_room(cs)) < 0)
        return rc;
    /* checks again, because a reset may have come while sync_to_others or wait_for_room waited */
    if (is_lost(cs->ctx))
        return -ECANCELED;
    job->fence = kmd_fence_new(machine);
    job->wait = cs->waits ? kmd_fence_join(machine, cs->wait, cs->waits) : NULL;
    if (!job->fence || (cs->waits && !job->wait))
        return -ENOMEM;
    job->list = cs->list;
    cs->list = NULL;
    job->view.find = kmd_vm_page;
    job->view.vm = cs->file->vm;
    job->view.vm->refs++;
    job->view.listed = job->list ? job->list->bo : NULL;
    job->view.listed_count = job->list ? job->list->count : 0;
    job->view.any_bo = machine->options.lenient & SP_LENIENT_UNLISTED;
    job->vram_lost_counter = cs->ctx->card->vram_lost_counter;
    kmd_order_push(job);
    rc = note_uses(cs);
    return rc < 0 ? rc : kmd_cs_promise(cs);
}

static int submit(struct kmd_cs *cs, uint64_t *seq)
{
    struct kmd_job *job = cs->job;
    struct kmd_entity *entity = job->entity;
    int rc = prepare(cs);
    if (rc == 0) {
        job->seq = entity->next_seq;
        entity->ctx->refs++;
        rc = kmd_job_push(job);
        if (rc < 0)
            kmd_ctx_put(entity->ctx);
    }
    if (rc < 0) {
        /* signals the fence with the error: a syncobj may already have it, and threads may wait for
         * it */
        if (job->fence)
            kmd_fence_signal(job->fence, rc);
        return rc;
    }
    kmd_fence_put(entity->fence[entity->next_seq % KMD_ENTITY_JOBS]);
    entity->fence[entity->next_seq % KMD_ENTITY_JOBS] = kmd_fence_get(job->fence);
    *seq = entity->next_seq++;
    cs->job = NULL; /* the ring owns the job now */
    return 0;
}

int kmd_do_cs(struct kmd_file *file, void *data)
{
    union drm_amdgpu_cs *args = data;
    struct drm_amdgpu_cs_in in = args->in;
    struct kmd_cs cs = {.file = file, .ctx = kmd_idr_get(&file->ctxs, in.ctx_id)};
    uint64_t seq = 0;
    if (!cs.ctx)
        return -EINVAL;
    if (is_lost(cs.ctx))
        return -ECANCELED;
    cs.ctx->refs++;
    cs.job = calloc(1, sizeof(*cs.job));
    int rc = cs.job ? take_list(&cs, in.bo_list_handle) : -ENOMEM;
    if (cs.job) {
        cs.job->machine = file->card->machine;
        cs.job->machine->live.jobs++;
    }
    if (rc == 0)
        rc = read_chunks(&cs, &in);
    if (rc == 0)
        rc = submit(&cs, &seq);
    kmd_cs_clear(&cs);
    if (rc < 0)
        return rc;
    memset(args, 0, sizeof(*args));
    args->out.handle = seq;
    return 0;
}
