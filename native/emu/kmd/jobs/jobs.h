/* Contexts and their jobs, from a submission to its end. */
#ifndef SP_EMU_KMD_JOBS_H
#define SP_EMU_KMD_JOBS_H
#include "emu/kmd/state/state.h"

#include "emu/cp/cp.h"
#include "emu/order/log.h"

/* ctx.c */
void kmd_ctx_put(struct kmd_ctx *ctx);
/* Finds the entity of a context for one kind of engine (`ip`) and the number of a ring. Returns 0
 * or -EINVAL. */
int kmd_ctx_entity(struct kmd_ctx *ctx, uint32_t ip, uint32_t instance, uint32_t ring, struct kmd_entity **out);
/* Finds the fence of submission `seq` (~0: the latest) and adds a reference. `*out` is NULL if the
 * job ended long ago. Returns -EINVAL for a submission that has not been made yet. */
int kmd_entity_fence(struct kmd_entity *entity, uint64_t seq, struct kmd_fence **out);
int kmd_fence_of(struct kmd_file *file, const struct drm_amdgpu_fence *which, struct kmd_fence **out);

/* job.c */
void kmd_job_free(struct kmd_job *job);
/* Removes the job from its entity, frees it and signals its fence. */
void kmd_job_finish(struct kmd_job *job, int error);

/* ring.c */
int kmd_job_push(struct kmd_job *job);
void kmd_card_start(struct kmd_card *card);
void kmd_card_stop(struct kmd_machine *machine, struct kmd_card *card);

/* recover.c */
/* Acts after a job failed with `error`: informs the context, does the resets, finishes the job. */
void kmd_recover(struct kmd_ring *ring, struct kmd_job *job, int error);

struct kmd_ring_state { /* the state that only a ring's thread uses, so it needs no lock */
    struct sp_emu_hwq hwq;
    struct sp_emu_exec exec;
    struct sp_watch watch;
};

/* Executes the EMIT_MEM_SYNC of a job once, if the job asks for it. Call this function twice: at
 * the job's submission with `queued` true, and at the job's beginning with `queued` false. The
 * first call executes it only if the job waits for nothing but earlier jobs of its queue. */
void kmd_job_mem_sync(struct kmd_job *job, bool queued);
/* Runs a job. Do not hold the machine's lock during the call. Returns 0 or the job's error;
 * state->exec.fault has the reason. */
int kmd_job_run(struct kmd_ring *ring, struct kmd_ring_state *state, struct kmd_job *job);
#endif
