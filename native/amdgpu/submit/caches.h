/* Which caches a job begins by emptying. */
#ifndef SP_AMDGPU_CACHES_H
#define SP_AMDGPU_CACHES_H
#include "amdgpu/packets/ib.h"

/* Why L2 is emptied beside what the device tells: others wrote what the job reads; its arguments stand where some stood before;
 * everything, whatever was emptied before. */
enum { SP_CACHES_OTHERS = 1, SP_CACHES_ARGS = 2, SP_CACHES_ALL = 4 };

/* What to empty beside the caches of waves, and what that is good for. */
struct sp_invalidate {
    uint32_t code, l2;
    struct sp_emptied as_of;
};

/* The reasons that a job has by itself. */
uint32_t sp_caches_reasons(const struct sp_job *job);
/* For the next job of the engine; before it is submitted. */
void sp_caches_look(struct sp_amdgpu_queue *q, struct sp_engine *e, uint32_t reasons, struct sp_invalidate *out);
/* Into the packet that an IB begins with. `busy`: the IB may be on its way, and keeps what it has been asked for. */
void sp_caches_put(uint32_t *ib, const struct sp_invalidate *invalid, uint32_t busy);
/* The kernel has taken the job, the engine's newest. */
void sp_caches_done(struct sp_engine *e, uint64_t slot, const struct sp_invalidate *invalid);
#endif
