/* Deliberate failures: plans, corruptions, flaws; and resets. */
#ifndef SP_EMU_KMD_FAULTS_H
#define SP_EMU_KMD_FAULTS_H
#include "emu/kmd/state/state.h"

/* plan.c: 0 or -ENOMEM */
int kmd_plan_add(struct kmd_card *card, const struct sp_emu_planned *planned);
/* The action planned for this ioctl (its -errno, or 0 to run it), and for this job */
int kmd_plan_ioctl(struct kmd_card *card, uint32_t nr);
void kmd_plan_job(struct kmd_card *card, struct kmd_job *job);
void kmd_plan_corrupt_next(struct kmd_card *card, const struct kmd_job *job);
void kmd_plan_drop(struct kmd_card *card);

/* corrupt.c: copies the memory that a job may write, before it runs; NULL: out of memory, or no
 * such memory. */
struct kmd_before *kmd_before_job(const struct kmd_job *job);
/* Xors a dword that has changed since; frees `before`. False: none has changed. */
bool kmd_corrupt(struct kmd_before *before, uint32_t mask, uint64_t seed);

/* plant.c: flaws of memory */
int kmd_stuck_start(struct kmd_card *card);
void kmd_stuck_stop(struct kmd_card *card); /* with `closing` set, without the lock */

/* reset.c */
void kmd_note_fault(struct kmd_card *card, const struct sp_emu_fault *fault);
void kmd_reset(struct kmd_card *card, bool vram_lost);
void kmd_unplug(struct kmd_card *card);
#endif
