/* Which caches a job begins by emptying (docs/AMDGPU_FACTS.md 6.2): those of waves always; that of code after code came; L2 after
 * somebody wrote behind it. The kernel's fence writes L2 back, so that no job has to.
 *
 * Who writes behind L2: the CPU, SDMA, another device. What we or SDMA write is counted in `written`, SDMA's when its job
 * is known to have ended; a job that waits for another ring empties L2 itself, behind the wait. Who has memory in hand (a view, an
 * export, an import, host memory in place) may write at any time: `exposed`. The kernel moves memory by SDMA or the CPU when it is
 * short of it, which it counts as evictions: only who would leave L2 as it is asks for that number.
 *
 * L2 is one for the device, but a job on its way on another ring has not emptied it yet: each engine counts for itself. Its jobs
 * end before the next begin, so that a job that empties L2 drops the arguments of all those before it. */
#include "caches.h"
#include "gen/pm4_packets.h"

uint32_t sp_caches_reasons(const struct sp_job *job)
{
    const struct sp_engine *e = job->flight->engine;
    const int args = job->wrote && e->args && e->emptied.job <= e->used[job->slot];
    return (job->nwaits || job->shared ? SP_CACHES_OTHERS : 0) | (args ? SP_CACHES_ARGS : 0);
}

/* Has the kernel moved memory since it was last asked? Who cannot know takes it for granted. */
static int moved(struct sp_amdgpu_queue *q, struct sp_emptied *e)
{
    const uint64_t before = e->evictions;
    const int rc = sp_amdgpu_evictions(q->dev, &e->evictions);
    sp_count(&q->counted.ioctls, 1);
    return rc < 0 || e->evictions != before;
}

void sp_caches_look(struct sp_amdgpu_queue *q, struct sp_engine *e, uint32_t reasons, struct sp_invalidate *out)
{
    const struct sp_amdgpu *dev = q->dev;
    const uint64_t exposed = atomic_load(&dev->exposed); /* first: who ends that counts it as written before */
    out->as_of = (struct sp_emptied){
        .written = atomic_load(&dev->written), .code_turn = atomic_load(&dev->code_turn), .evictions = e->emptied.evictions};
    out->code = (reasons & SP_CACHES_ALL) || out->as_of.code_turn != e->emptied.code_turn;
    out->l2 = out->code || reasons || exposed || out->as_of.written != e->emptied.written || moved(q, &out->as_of);
}

void sp_caches_put(uint32_t *ib, const struct sp_invalidate *invalid, uint32_t busy)
{
    enum { GCR = PM4_ACQUIRE_MEM_NDW - 1 };
    uint32_t packet[PM4_ACQUIRE_MEM_NDW] = {0};
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLK_INV, 1);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLV_INV, 1);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GL1_INV, 1);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLI_INV, invalid->code != 0);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLM_INV, invalid->l2 != 0); /* as Linux and Mesa, which never invalidate without WB */
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLM_WB, invalid->l2 != 0);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GL2_INV, invalid->l2 != 0);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GL2_WB, invalid->l2 != 0);
    __atomic_store_n(ib + GCR, packet[GCR] | (busy ? ib[GCR] : 0), __ATOMIC_RELAXED);
}

void sp_caches_done(struct sp_engine *e, uint64_t slot, const struct sp_invalidate *invalid)
{
    e->used[slot] = e->jobs;
    if (!invalid->l2)
        return;
    e->emptied = invalid->as_of;
    e->emptied.job = e->jobs;
}
