/* The scheduler. Entities queue jobs. The thread of each hardware ring runs the jobs of its
 * entities in turn; it takes the next job whose dependencies have signalled. An entity without jobs
 * moves to the least busy ring, as in the kernel driver. */
#include "jobs.h"
#include "order.h"
#include "emu/memory/caches.h"
#include "emu/race/race.h"
#include "emu/kmd/faults/faults.h"

#include <time.h>

static struct kmd_ring *choose_ring(struct kmd_card *card, uint32_t ip)
{
    struct kmd_ring *best = NULL, *ring;
    for (uint32_t i = 0; (ring = kmd_ring_at(card, i)); i++)
        if (ring->ip == ip && (!best || ring->load < best->load))
            best = ring;
    return best;
}

static int attach(struct kmd_ring *ring, struct kmd_entity *entity)
{
    if (ring->entities == ring->capacity) {
        uint32_t capacity = ring->capacity ? 2 * ring->capacity : 4;
        struct kmd_entity **grown = realloc(ring->entity, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        ring->entity = grown;
        ring->capacity = capacity;
    }
    ring->entity[ring->entities++] = entity;
    entity->ring = ring;
    return 0;
}

/* Returns the error if a waiting job must not start, because its card is gone, its context was
 * blamed for a hang, or VRAM was lost. Otherwise returns 0. */
static int error_of(const struct kmd_job *job)
{
    const struct kmd_ctx *ctx = job->entity->ctx;
    if (ctx->card->unplugged)
        return -ENODEV;
    return ctx->guilty || job->vram_lost_counter != ctx->card->vram_lost_counter ? -ECANCELED : 0;
}

static struct kmd_job *next_job(struct kmd_ring *ring)
{
    for (uint32_t i = 0; i < ring->entities; i++) {
        uint32_t k = (ring->turn + i) % ring->entities;
        struct kmd_job *job = ring->entity[k]->first;
        const struct sp_emu_flaw_of *flaw = sp_emu_flaw(&ring->card->chip.core, SP_FLAW_DEPENDENCY);
        bool free = !job->wait || job->wait->signalled || (flaw && flaw->a >> ring->ip & 1);
        if ((!ring->card->hold && free) || error_of(job)) {
            ring->turn = k + 1;
            return job;
        }
    }
    return NULL;
}

/* Delays the ring by a random time, or until its job is cancelled. */
static void delay_randomly(struct kmd_ring *ring)
{
    struct kmd_machine *machine = ring->card->machine;
    uint64_t until = kmd_now() + kmd_random(machine, machine->options.delay_ns);
    struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    while (machine->options.delay_ns && !ring->cancel && kmd_now() < until)
        pthread_cond_timedwait(&ring->card->work, &machine->lock, &at);
}

/* Makes the job's end visible: stores the job's number (job->seq) where the FENCE chunk of its
 * submission says. The store goes to memory without passing through GL2. */
static void tell(const struct kmd_card *card, struct kmd_job *job)
{
    kmd_order_end(job);
    const struct kmd_bo *bo = job->fence_bo;
    __atomic_store_n((uint64_t *)(void *)(bo->host + job->fence_offset), job->seq, __ATOMIC_RELEASE);
    if (card->l2)
        sp_l2_take(card->l2, (bo->offset + job->fence_offset) / SP_VM_GRAIN,
                   bo->host + job->fence_offset / SP_VM_GRAIN * SP_VM_GRAIN, job->fence_offset % SP_VM_GRAIN, 8);
}

static void run(struct kmd_ring *ring, struct kmd_ring_state *state, struct kmd_job *job)
{
    struct kmd_card *card = ring->card;
    int error = error_of(job);
    if (error) {
        kmd_job_finish(job, error);
        return;
    }
    ring->running = job;
    ring->cancel = 0;
    delay_randomly(ring);
    if (ring->registers_lost)
        sp_emu_hwq_reset(&state->hwq, ring->ip);
    ring->registers_lost = false;
    error = ring->cancel ? -ECANCELED : kmd_job_run(ring, state, job);
    if (!error)
        delay_randomly(ring);
    /* stores the job's number where its FENCE chunk says. As in the kernel driver
     * (amdgpu_ib_schedule), this comes before the interrupt and before job->fence signals. */
    if (!error && !ring->cancel && job->fence_bo && !sp_emu_flaw(&card->chip.core, SP_FLAW_FENCE)) {
        tell(card, job);
        delay_randomly(ring);
    }
    card->fault.lane_ops += state->exec.lane_ops;
    card->fault.vram_dispatches += state->exec.vram_dispatches;
    card->fault.other_dispatches += state->exec.other_dispatches;
    state->exec.lane_ops = state->exec.vram_dispatches = state->exec.other_dispatches = 0;
    ring->running = NULL;
    if (ring->cancel) {
        kmd_job_finish(job, card->unplugged ? -ENODEV : -ECANCELED);
    } else if (error) {
        kmd_note_fault(card, &state->exec.fault);
        kmd_recover(ring, job, error);
    } else {
        kmd_job_finish(job, 0);
    }
}

static void *ring_main(void *argument)
{
    struct kmd_ring *ring = argument;
    struct kmd_machine *machine = ring->card->machine;
    pthread_mutex_lock(&machine->lock);
    ring->registers_lost = true;
    while (!machine->closing) {
        struct kmd_job *job = next_job(ring);
        if (job)
            run(ring, ring->state, job);
        else
            pthread_cond_wait(&ring->card->work, &machine->lock);
    }
    pthread_mutex_unlock(&machine->lock);
    return NULL;
}

static int start(struct kmd_ring *ring)
{
    if (ring->started)
        return 0;
    if (!ring->state && !(ring->state = calloc(1, sizeof(*ring->state))))
        return -ENOMEM;
    if (pthread_create(&ring->thread, NULL, ring_main, ring) != 0)
        return -ENOMEM;
    ring->started = true;
    return 0;
}

/* Moves the injections that tests have set on the card (hang_next, fault_next, plans) to the job
 * that is being submitted, whichever ring it runs on. */
static void take_injections(struct kmd_card *card, struct kmd_job *job)
{
    job->recovery = card->machine->options.recovery;
    if (card->hang_next) {
        job->hang = true;
        job->recovery = card->hang_recovery;
    }
    job->bad_read = card->fault_next;
    job->bad_va = card->fault_va;
    card->hang_next = card->fault_next = false;
    kmd_plan_job(card, job);
}

int kmd_job_push(struct kmd_job *job)
{
    struct kmd_entity *entity = job->entity;
    struct kmd_card *card = entity->ctx->card;
    struct kmd_ring *ring = entity->ring ? entity->ring : choose_ring(card, entity->ip);
    int rc = start(ring);
    if (rc == 0 && !entity->ring)
        rc = attach(ring, entity);
    if (rc < 0)
        return rc;
    take_injections(card, job);
    if (entity->last)
        entity->last->next = job;
    else
        entity->first = job;
    entity->last = job;
    ring->load++;
    kmd_job_mem_sync(job, true);
    kmd_trace(card->machine, "job card=%u ip=%u seq=%llu flags=0x%x queued on ring %u", card->index, entity->ip,
              (unsigned long long)job->seq, job->ibs ? job->ib[0].flags : 0, ring->index);
    pthread_cond_broadcast(&card->work);
    return 0;
}

void kmd_card_start(struct kmd_card *card)
{
    pthread_condattr_t monotonic;
    struct kmd_ring *ring;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&card->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (uint32_t i = 0; (ring = kmd_ring_at(card, i)); i++) {
        uint32_t compute = card->chip.compute_rings;
        ring->card = card;
        ring->ip = i == 0 ? AMDGPU_HW_IP_GFX : i <= compute ? AMDGPU_HW_IP_COMPUTE : AMDGPU_HW_IP_DMA;
        ring->index = i == 0 ? 0 : i <= compute ? i - 1 : i - 1 - compute;
    }
}

/* Stops the rings of a card. The caller has set machine->closing before. */
void kmd_card_stop(struct kmd_machine *machine, struct kmd_card *card)
{
    struct kmd_ring *ring;
    for (uint32_t i = 0; (ring = kmd_ring_at(card, i)); i++)
        __atomic_store_n(&ring->cancel, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&card->work);
    for (uint32_t i = 0; (ring = kmd_ring_at(card, i)); i++) {
        if (ring->started) {
            pthread_mutex_unlock(&machine->lock);
            pthread_join(ring->thread, NULL);
            pthread_mutex_lock(&machine->lock);
        }
        while (ring->entities)
            kmd_job_finish(ring->entity[0]->first, -ECANCELED);
        free(ring->entity);
        if (ring->state) {
            for (uint32_t k = 0; k < SP_EXEC_THREADS; k++)
                sp_caches_free(ring->state->exec.caches[k]);
            sp_async_free(&ring->state->exec);
            sp_races_free(ring->state->exec.races);
        }
        free(ring->state);
    }
    pthread_cond_destroy(&card->work);
}
