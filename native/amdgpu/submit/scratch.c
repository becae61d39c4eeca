/* Scratch for as many waves as the card can hold (Mesa: 32 a CU), within reason. */
#include "scratch.h"
#include "amdgpu/progress/progress.h"

enum { WAVES_PER_CU = 32 };
static const uint64_t MOST_SCRATCH = UINT64_C(256) << 20;

int sp_amdgpu_queue_scratch(struct sp_amdgpu_queue *q, uint64_t wave_nbytes)
{
    const struct sp_amdgpu_setup *s = &q->dev->setup;
    uint64_t engines = s->gfx >= 11 ? s->engines : 1; /* WAVES counts those of one engine from gfx11 on */
    uint64_t waves = (uint64_t)WAVES_PER_CU * s->cus / engines;
    uint64_t most = MOST_SCRATCH / (wave_nbytes * engines);
    waves = waves < most ? waves : most ? most : 1;
    if (q->scratch && q->scratch->nbytes >= waves * engines * wave_nbytes) {
        q->scratch_waves = (uint32_t)waves;
        return 0;
    }
    struct sp_amdgpu_memory *more;
    int rc = sp_amdgpu_idle(q); /* nobody uses the old one */
    if (rc == 0)
        rc = sp_amdgpu_alloc(q->dev, waves * engines * wave_nbytes, SP_AMDGPU_DEVICE, &more);
    if (rc)
        return rc;
    sp_amdgpu_free(q->scratch);
    q->scratch = more;
    q->scratch_waves = (uint32_t)waves;
    return 0;
}
