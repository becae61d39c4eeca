/* Sizes the scratch memory of a queue.
 *
 * Each shader engine has its own scratch slots, and all waves of a group run in one engine. A group
 * waits for ever if its engine has fewer slots than the group has waves. So each engine gets slots
 * for all waves that the card can hold (Mesa: 32 per CU), or as many as 256 MiB allow. An engine
 * always gets at least the slots that one group needs. */
#include "scratch.h"
#include "amdgpu/progress/progress.h"
#include "gen/regs.h"

#include <errno.h>

/* limit of the WAVES field of TMPRING_SIZE */
enum { WAVES_PER_CU = 32, WAVES_MOST = (1 << 12) - 1 };
static const uint64_t USUAL_NBYTES = UINT64_C(256) << 20;

void sp_scratch_more(struct sp_scratch_need *need, const struct sp_cmd_dispatch *d)
{
    const struct sp_amdgpu_template *t = &((const struct sp_amdgpu_kernel *)(uintptr_t)d->kernel)->t;
    const uint32_t lanes = sp_get(t->dwords + t->dims_at + 3, COMPUTE_DISPATCH_INITIATOR_CS_W32_EN) ? 32 : 64;
    const uint64_t threads = (uint64_t)d->group_size[0] * d->group_size[1] * d->group_size[2];
    const uint64_t waves = (threads + lanes - 1) / lanes;
    need->wave_nbytes = t->scratch_wave_nbytes > need->wave_nbytes ? t->scratch_wave_nbytes : need->wave_nbytes;
    need->group_waves = waves > need->group_waves ? waves : need->group_waves;
}

int sp_scratch_check(const struct sp_amdgpu *dev, const struct sp_cmd_dispatch *d)
{
    struct sp_scratch_need need = {0, 0};
    sp_scratch_more(&need, d);
    return need.wave_nbytes * need.group_waves * dev->setup.engines > SP_AMDGPU_SCRATCH_MOST ? -E2BIG : 0;
}

int sp_amdgpu_queue_scratch(struct sp_amdgpu_queue *q, const struct sp_scratch_need *need)
{
    const struct sp_amdgpu_setup *s = &q->dev->setup;
    const uint64_t engines = s->engines, most = USUAL_NBYTES / (need->wave_nbytes * engines);
    /* The field WAVES counts scratch slots, one per wave: from gfx11 on those of one shader engine,
     * before gfx11 those of all engines. */
    const uint64_t counted = s->gfx >= 11 ? 1 : engines;
    uint64_t waves = (uint64_t)WAVES_PER_CU * s->cus / engines;
    waves = waves < most ? waves : most;
    waves = waves < WAVES_MOST / counted ? waves : WAVES_MOST / counted;
    waves = waves > need->group_waves ? waves : need->group_waves;
    const uint64_t nbytes = waves * engines * need->wave_nbytes;
    if (!q->scratch || q->scratch->nbytes < nbytes) {
        struct sp_amdgpu_memory *more;
        /* after this no job uses the present scratch memory, which is then replaced */
        int rc = sp_amdgpu_idle(q);
        if (rc == 0)
            rc = sp_amdgpu_alloc(q->dev, nbytes, SP_AMDGPU_DEVICE, &more);
        if (rc)
            return rc;
        sp_amdgpu_free(q->scratch);
        q->scratch = more;
    }
    q->scratch_waves = (uint32_t)(waves * counted);
    return 0;
}
