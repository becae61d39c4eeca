/* Runs one job on one ring. The command processor or the SDMA engine executes the job's IBs, one
 * after another. */
#include "jobs.h"
#include "order.h"
#include "emu/memory/l2.h"
#include "emu/kmd/faults/faults.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void begin(struct kmd_ring *ring, struct sp_emu_exec *x, const struct kmd_job *job)
{
    struct kmd_machine *machine = ring->card->machine;
    memset(&x->fault, 0, sizeof(x->fault));
    x->chip = &ring->card->chip.core;
    x->gb_addr_config = ring->card->chip.gb_addr_config;
    x->tlb.l2 = ring->card->l2;
    x->tlb.name_stale = x->tlb.l2 && machine->options.name_stale;
    x->tlb.write_around = ring->ip == AMDGPU_HW_IP_DMA;
    x->watch = &ring->state->watch;
    sp_emu_tlb_reset(&x->tlb, &job->view, &x->fault);
    x->lenient = machine->options.lenient;
    x->threads = machine->options.threads;
    x->seed = machine->options.seed * UINT64_C(0x9E3779B97F4A7C15) + ring->index;
    x->limit_ns = machine->options.job_limit_ns;
    x->worked_ns = 0;
    x->cpu_ns = sp_emu_thread_ns();
    x->keep_caches = machine->options.keep_caches;
    x->cancel = &ring->cancel;
    x->lane_ops = x->vram_dispatches = x->other_dispatches = 0;
    x->trace = machine->options.trace >= 2 ? kmd_trace_line : NULL;
    x->trace_self = machine;
}

/* Returns true if the flaw SP_FLAW_RESET has acted: a reset that reported success has left this
 * ring dead. */
static bool is_dead(const struct kmd_ring *ring)
{
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(&ring->card->chip.core, SP_FLAW_RESET);
    return flaw && flaw->a == ring->ip && flaw->b >> ring->index & 1 && ring->card->reset_counter > 0;
}

/* Imitates a job that hangs: waits until the job's time limit or until the job is cancelled. */
static int hang(struct kmd_ring *ring, struct sp_emu_exec *x, const char *why)
{
    struct kmd_machine *machine = ring->card->machine;
    uint64_t end_ns = kmd_now() + x->limit_ns;
    struct timespec until = {(time_t)(end_ns / 1000000000), (long)(end_ns % 1000000000)};
    while (!ring->cancel && kmd_now() < end_ns)
        pthread_cond_timedwait(&ring->card->work, &machine->lock, &until);
    if (ring->cancel)
        return -ECANCELED;
    return sp_emu_fault_set(&x->fault, SP_FAULT_TIMEOUT, -ETIME, "%s", why);
}

/* Performs the cache invalidation that a job asks for (EMIT_MEM_SYNC), at the time at which the
 * kernel driver performs it. Linux up to 6.19 puts it into the ring before the wait for the ring's
 * earlier jobs (amdgpu_ib_schedule). So the caches of a job that waits only for the previous job of
 * its ring are invalidated while that job still runs. SDMA rings obey EMIT_MEM_SYNC since KMS
 * 3.42. */
void kmd_job_mem_sync(struct kmd_job *job, bool queued)
{
    struct kmd_card *card = job->entity->ctx->card;
    bool asked = job->ibs && job->ib[0].flags & AMDGPU_IB_FLAG_EMIT_MEM_SYNC;
    if (!card->l2 || !asked || job->synced || (job->entity->ip == AMDGPU_HW_IP_DMA && card->kms_minor < KMD_KMS_DMA_SYNC))
        return;
    job->synced = !queued || (job->entity->first != job && (!job->wait || job->wait->signalled));
    if (job->synced)
        sp_l2_gcr(card->l2, SP_GCR_MEM_SYNC);
}

static int check_ragged(struct sp_emu_exec *x, const struct kmd_job *job)
{
    if (job->ragged_nbytes == 0 || x->lenient & SP_LENIENT_PADDING)
        return 0;
    x->fault.va = job->ragged_va;
    return sp_emu_fault_set(&x->fault, SP_FAULT_IB, -EFAULT, "the IB at 0x%llx has %u bytes: not whole dwords",
                            (unsigned long long)job->ragged_va, job->ragged_nbytes);
}

/* Returns true if a later job of the same queue may begin before this job's waves have ended. */
static int is_followed(const struct kmd_job *job)
{
    struct kmd_machine *machine = job->machine;
    pthread_mutex_lock(&machine->lock);
    int followed = job->next != NULL || machine->options.delay_ns;
    pthread_mutex_unlock(&machine->lock);
    return followed;
}

static int execute(struct kmd_ring *ring, struct kmd_ring_state *state, const struct kmd_job *job)
{
    struct sp_emu_exec *x = &state->exec;
    const struct kmd_entity *entity = job->entity;
    int rc = 0;
    sp_emu_hwq_begin(&state->hwq, (entity->ctx->serial << 16) | (entity->ip << 8) | entity->index);
    if (job->bad_read && !sp_emu_at(&x->tlb, job->bad_va, SP_VM_READ))
        return -EFAULT;
    rc = check_ragged(x, job);
    for (uint32_t i = 0; i < job->ibs && rc == 0; i++) {
        if (job->ib[i].ndw == 0)
            continue;
        rc = ring->ip == AMDGPU_HW_IP_DMA ? sp_emu_sdma_run(&state->hwq, &job->ib[i], x)
                                          : sp_emu_cp_run(&state->hwq, &job->ib[i], x);
    }
    return ring->ip == AMDGPU_HW_IP_DMA ? rc : sp_emu_cp_end(&state->hwq, x, rc, is_followed(job));
}

/* Waits for the additional time of a job that was slowed by injection. A cancellation ends the
 * wait. If the job's time limit ends the wait, returns -ETIME. */
static int slow_down(struct kmd_ring *ring, const struct sp_emu_exec *x, const struct kmd_job *job, uint64_t took_ns)
{
    struct kmd_machine *machine = ring->card->machine;
    uint64_t times = job->slow > 1 ? job->slow - 1 : 0;
    uint64_t until = times && took_ns > UINT64_MAX / 4 / times ? UINT64_MAX / 2 : kmd_now() + took_ns * times;
    uint64_t rest = x->limit_ns > took_ns ? x->limit_ns - took_ns : 0, limit = kmd_now() + rest;
    uint64_t stop = until < limit ? until : limit;
    struct timespec at = {(time_t)(stop / 1000000000), (long)(stop % 1000000000)};
    while (times && !ring->cancel && kmd_now() < stop)
        pthread_cond_timedwait(&ring->card->work, &machine->lock, &at);
    return times && stop < until && !ring->cancel ? -ETIME : 0;
}

int kmd_job_run(struct kmd_ring *ring, struct kmd_ring_state *state, struct kmd_job *job)
{
    struct kmd_machine *machine = ring->card->machine;
    struct sp_emu_exec *x = &state->exec;
    begin(ring, x, job);
    if (job->hang)
        return hang(ring, x, "an injected hang");
    if (is_dead(ring)) {
        char why[48];
        snprintf(why, sizeof why, "ring %u is dead since a reset", ring->index);
        return hang(ring, x, why);
    }
    /* Only the flags of the first IB count: amdgpu_ib_schedule emits the packet GCR_REQ once,
     * before all IBs. */
    if (ring->ip == AMDGPU_HW_IP_DMA && job->ib[0].flags & AMDGPU_IB_FLAG_EMIT_MEM_SYNC && sp_emu_flaw(x->chip, SP_FLAW_MEM_SYNC))
        return hang(ring, x, "the copy engine hangs at the kernel's GCR_REQ");
    struct kmd_before *before = job->corrupt ? kmd_before_job(job) : NULL;
    uint64_t start = kmd_now();
    int goes_on = kmd_order_begin(ring, job, &state->watch);
    pthread_mutex_unlock(&machine->lock);
    if (!goes_on)
        sp_async_forget(x);
    sp_emu_watch_packet(x, NULL);
    if (x->tlb.l2)
        sp_l2_job_begins(x->tlb.l2);
    kmd_job_mem_sync(job, false);
    int rc = execute(ring, state, job);
    if (x->tlb.l2)
        sp_l2_job_ends(x->tlb.l2);
    pthread_mutex_lock(&machine->lock);
    if (kmd_order_executed(ring, job, &state->watch))
        rc = rc ? (sp_watch_fault(x->watch, &x->fault), rc) : sp_watch_fault(x->watch, &x->fault);
    rc = rc ? rc : slow_down(ring, x, job, kmd_now() - start);
    if (job->corrupt && kmd_corrupt(before, job->corrupt_mask, job->corrupt_seed))
        ring->card->planned_done[SP_EMU_DO_CORRUPT]++;
    else if (job->corrupt)
        kmd_plan_corrupt_next(ring->card, job);
    if (rc == -ETIME)
        sp_emu_fault_set(&x->fault, SP_FAULT_TIMEOUT, rc, "the job ran longer than its limit of %llu ms",
                         (unsigned long long)(machine->options.job_limit_ns / 1000000));
    return rc;
}
