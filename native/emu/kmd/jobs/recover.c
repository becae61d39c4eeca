/* What happens after a job hung or faulted.
 *
 * Real hardware goes on after a page fault: reads give something, writes go nowhere, and only a hang that follows ends the
 * job. Here the job that faulted ends as one that hung, so that no wrong address goes unnoticed. */
#include "jobs.h"
#include "emu/kmd/faults/faults.h"

void kmd_recover(struct kmd_ring *ring, struct kmd_job *job, int error)
{
    struct kmd_card *card = ring->card;
    (void)error; /* -EFAULT is nothing the kernel would say: the fault's text does */
    if (job->recovery == SP_EMU_RECOVER_SOFT) {
        card->reset_counter++; /* amdgpu_ring_soft_recovery counts as one */
        kmd_job_finish(job, -ENODATA);
        return;
    }
    card->broken = card->broken || sp_emu_flaw(&card->chip.core, SP_FLAW_RECOVERY);
    job->entity->ctx->guilty = true; /* and so the context's other jobs are doomed */
    if (job->recovery == SP_EMU_RECOVER_RING) {
        card->reset_counter++;
        ring->registers_lost = true;
    } else {
        kmd_reset(card, job->recovery == SP_EMU_RECOVER_VRAM_LOST);
    }
    kmd_job_finish(job, -ETIME);
    pthread_cond_broadcast(&card->work);
}
