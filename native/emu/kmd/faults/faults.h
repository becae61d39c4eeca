/* Deliberate failures (planned injections, corruptions, planted flaws), and resets. */
#ifndef SP_EMU_KMD_FAULTS_H
#define SP_EMU_KMD_FAULTS_H
#include "emu/kmd/state/state.h"

/* Adds a planned injection to a card. Returns 0 or -ENOMEM. */
int kmd_plan_add(struct kmd_card *card, const struct sp_emu_planned *planned);
/* kmd_plan_ioctl performs the actions that are planned for this ioctl. Returns -errno if the ioctl
 * must fail, 0 to run it. kmd_plan_job marks a new job with the actions that are planned for it. */
int kmd_plan_ioctl(struct kmd_card *card, uint32_t nr);
void kmd_plan_job(struct kmd_card *card, struct kmd_job *job);
void kmd_plan_corrupt_next(struct kmd_card *card, const struct kmd_job *job);
void kmd_plan_drop(struct kmd_card *card);

/* corrupt.c: copies the memory that a job may write, before the job runs. Returns NULL if memory is
 * short. */
struct kmd_before *kmd_before_job(const struct kmd_job *job);
/* Chooses by `seed` one of the dwords that have changed since kmd_before_job, and xors it with
 * `mask`. Frees `before`. Returns false if no dword has changed. */
bool kmd_corrupt(struct kmd_before *before, uint32_t mask, uint64_t seed);

/* Starts the thread that imitates the flaw SP_FLAW_BIT: one data bit of each BO always becomes
 * 1. */
int kmd_stuck_start(struct kmd_card *card);
/* Stops the thread of the flaw SP_FLAW_BIT and waits for its end. Set the machine's `closing`
 * before the call, and do not hold the machine's lock. */
void kmd_stuck_stop(struct kmd_card *card);

/* reset.c */
void kmd_note_fault(struct kmd_card *card, const struct sp_emu_fault *fault);
void kmd_reset(struct kmd_card *card, bool vram_lost);
void kmd_unplug(struct kmd_card *card);
#endif
