/* Contexts and their entities. Each context has one entity (queue) for GFX, four for COMPUTE and
 * two for DMA. */
#include "jobs.h"
#include "emu/kmd/state/handlers.h"
#include "emu/kmd/sync/sync.h"

#include <string.h>

static void set_entity(struct kmd_entity *entity, struct kmd_ctx *ctx, uint32_t ip, uint32_t index)
{
    entity->ctx = ctx;
    entity->ip = ip;
    entity->index = index;
    entity->next_seq = 1;
}

static void drop_entity(struct kmd_entity *entity)
{
    for (int i = 0; i < KMD_ENTITY_JOBS; i++)
        kmd_fence_put(entity->fence[i]);
}

void kmd_ctx_put(struct kmd_ctx *ctx)
{
    if (--ctx->refs > 0)
        return;
    drop_entity(&ctx->gfx);
    for (int i = 0; i < KMD_COMPUTE_ENTITIES; i++)
        drop_entity(&ctx->compute[i]);
    drop_entity(&ctx->dma[0]);
    drop_entity(&ctx->dma[1]);
    ctx->card->machine->live.contexts--;
    free(ctx);
}

int kmd_ctx_entity(struct kmd_ctx *ctx, uint32_t ip, uint32_t instance, uint32_t ring, struct kmd_entity **out)
{
    if (instance != 0)
        return -EINVAL;
    if (ip == AMDGPU_HW_IP_GFX && ring == 0)
        *out = &ctx->gfx;
    else if (ip == AMDGPU_HW_IP_COMPUTE && ring < KMD_COMPUTE_ENTITIES)
        *out = &ctx->compute[ring];
    else if (ip == AMDGPU_HW_IP_DMA && ring < 2)
        *out = &ctx->dma[ring];
    else
        return -EINVAL;
    return 0;
}

int kmd_entity_fence(struct kmd_entity *entity, uint64_t seq, struct kmd_fence **out)
{
    *out = NULL;
    if (seq == UINT64_MAX)
        seq = entity->next_seq - 1;
    if (seq >= entity->next_seq)
        return -EINVAL;
    if (seq + KMD_ENTITY_JOBS >= entity->next_seq)
        *out = kmd_fence_get(entity->fence[seq % KMD_ENTITY_JOBS]);
    return 0;
}

int kmd_fence_of(struct kmd_file *file, const struct drm_amdgpu_fence *which, struct kmd_fence **out)
{
    struct kmd_ctx *ctx = kmd_idr_get(&file->ctxs, which->ctx_id);
    struct kmd_entity *entity;
    int rc = ctx ? kmd_ctx_entity(ctx, which->ip_type, which->ip_instance, which->ring, &entity) : -EINVAL;
    if (rc == 0)
        rc = kmd_entity_fence(entity, which->seq_no, out);
    if (rc == 0 && entity->error && !(*out && (*out)->signalled && (*out)->error)) {
        /* once a job of an entity has failed, its error is also returned for the entity's other
         * jobs, unless they have an error of their own */
        kmd_fence_put(*out);
        *out = NULL;
        rc = entity->error;
    }
    return rc;
}

static int alloc(struct kmd_file *file, int32_t priority, union drm_amdgpu_ctx *args)
{
    struct kmd_card *card = file->card;
    bool valid = priority == AMDGPU_CTX_PRIORITY_UNSET || priority == AMDGPU_CTX_PRIORITY_VERY_LOW ||
                 priority == AMDGPU_CTX_PRIORITY_LOW || priority == AMDGPU_CTX_PRIORITY_HIGH ||
                 priority == AMDGPU_CTX_PRIORITY_VERY_HIGH;
    uint32_t id;
    /* Old programs left garbage in the priority field; the kernel driver treats an unknown priority
     * as NORMAL. */
    if (!valid)
        priority = AMDGPU_CTX_PRIORITY_NORMAL;
    if (priority > AMDGPU_CTX_PRIORITY_NORMAL && !card->machine->options.sys_nice)
        return -EACCES;
    struct kmd_ctx *ctx = calloc(1, sizeof(*ctx));
    if (!ctx)
        return -ENOMEM;
    ctx->refs = 1;
    ctx->card = card;
    ctx->serial = ++card->machine->next_serial;
    ctx->priority = priority;
    ctx->reset_counter = ctx->reset_counter_query = card->reset_counter;
    ctx->vram_lost_counter = card->vram_lost_counter;
    set_entity(&ctx->gfx, ctx, AMDGPU_HW_IP_GFX, 0);
    for (uint32_t i = 0; i < KMD_COMPUTE_ENTITIES; i++)
        set_entity(&ctx->compute[i], ctx, AMDGPU_HW_IP_COMPUTE, i);
    for (uint32_t i = 0; i < 2; i++)
        set_entity(&ctx->dma[i], ctx, AMDGPU_HW_IP_DMA, i);
    card->machine->live.contexts++;
    int rc = kmd_idr_add(&file->ctxs, ctx, &id);
    if (rc < 0) {
        kmd_ctx_put(ctx);
        return rc;
    }
    memset(args, 0, sizeof(*args));
    args->out.alloc.ctx_id = id;
    return 0;
}

static void query(struct kmd_ctx *ctx, union drm_amdgpu_ctx *args)
{
    const struct kmd_card *card = ctx->card;
    memset(args, 0, sizeof(*args));
    args->out.state.reset_status =
        ctx->reset_counter_query == card->reset_counter ? AMDGPU_CTX_NO_RESET : AMDGPU_CTX_UNKNOWN_RESET;
    ctx->reset_counter_query = card->reset_counter;
}

static void query2(const struct kmd_ctx *ctx, union drm_amdgpu_ctx *args)
{
    const struct kmd_card *card = ctx->card;
    memset(args, 0, sizeof(*args));
    if (ctx->reset_counter != card->reset_counter)
        args->out.state.flags |= AMDGPU_CTX_QUERY2_FLAGS_RESET;
    if (ctx->vram_lost_counter != card->vram_lost_counter)
        args->out.state.flags |= AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST;
    if (ctx->guilty)
        args->out.state.flags |= AMDGPU_CTX_QUERY2_FLAGS_GUILTY;
}

static int set_pstate(struct kmd_ctx *ctx, uint32_t flags)
{
    if (flags & ~(uint32_t)AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK || flags > AMDGPU_CTX_STABLE_PSTATE_PEAK)
        return -EINVAL;
    ctx->pstate = flags;
    return 0;
}

int kmd_do_ctx(struct kmd_file *file, void *data)
{
    union drm_amdgpu_ctx *args = data;
    struct drm_amdgpu_ctx_in in = args->in;
    bool pstate = in.op == AMDGPU_CTX_OP_GET_STABLE_PSTATE || in.op == AMDGPU_CTX_OP_SET_STABLE_PSTATE;
    struct kmd_ctx *ctx = in.op == AMDGPU_CTX_OP_ALLOC_CTX ? NULL : kmd_idr_get(&file->ctxs, in.ctx_id);
    if (in.op == AMDGPU_CTX_OP_ALLOC_CTX)
        return alloc(file, in.priority, args);
    if (!ctx || (pstate && file->card->kms_minor < KMD_KMS_STABLE_PSTATE))
        return -EINVAL;
    switch (in.op) {
    case AMDGPU_CTX_OP_FREE_CTX:
        kmd_idr_remove(&file->ctxs, in.ctx_id);
        kmd_ctx_put(ctx); /* the context's jobs run to their end */
        return 0;
    case AMDGPU_CTX_OP_QUERY_STATE:
        query(ctx, args);
        return 0;
    case AMDGPU_CTX_OP_QUERY_STATE2:
        query2(ctx, args);
        return 0;
    case AMDGPU_CTX_OP_GET_STABLE_PSTATE:
        if (in.flags)
            return -EINVAL;
        memset(args, 0, sizeof(*args));
        args->out.pstate.flags = ctx->pstate;
        return 0;
    case AMDGPU_CTX_OP_SET_STABLE_PSTATE:
        return set_pstate(ctx, in.flags);
    default:
        return -EINVAL;
    }
}
