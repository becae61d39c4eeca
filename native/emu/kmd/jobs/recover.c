/* Recovery after a hang or a fault.
 *
 * Silicon goes on after a page fault: reads return some value, writes are lost, and only a hang
 * that follows ends the job. Here a faulting job ends like a hang, so that no wrong address goes
 * unnoticed. */
#include "jobs.h"
#include "emu/kmd/faults/faults.h"

void kmd_recover(struct kmd_ring *ring, struct kmd_job *job, int error)
{
    struct kmd_card *card = ring->card;
    /* the kernel driver never reports -EFAULT here; the text of the fault says what happened */
    (void)error;
    if (job->recovery == SP_EMU_RECOVER_SOFT) {
        card->reset_counter++; /* amdgpu_ring_soft_recovery counts as a reset */
        kmd_job_finish(job, -ENODATA);
        return;
    }
    card->broken = card->broken || sp_emu_flaw(&card->chip.core, SP_FLAW_RECOVERY);
    job->entity->ctx->guilty = true; /* cancels the other jobs of the context */
    if (job->recovery == SP_EMU_RECOVER_RING) {
        card->reset_counter++;
        ring->registers_lost = true;
    } else {
        kmd_reset(card, job->recovery == SP_EMU_RECOVER_VRAM_LOST);
    }
    kmd_job_finish(job, -ETIME);
    pthread_cond_broadcast(&card->work);
}
