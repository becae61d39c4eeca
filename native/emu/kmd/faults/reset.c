/* Resets, whatever their cause, and the report of a fault. */
#include "faults.h"

#include "emu/memory/l2.h"

#include <stdio.h>
#include <string.h>

enum { LOST = 0xdd };

void kmd_note_fault(struct kmd_card *card, const struct sp_emu_fault *fault)
{
    struct sp_emu_fault_report *r = &card->fault;
    r->count++;
    r->kind = fault->kind;
    r->access = fault->access;
    r->wave = fault->wave;
    r->va = fault->va;
    r->pc = fault->pc;
    memcpy(r->group, fault->group, sizeof(r->group));
    r->lane = fault->lane;
    snprintf(r->text, sizeof(r->text), "%s", fault->text);
    kmd_trace(card->machine, "fault card=%u kind=%u va=0x%llx pc=0x%llx: %s", card->index, r->kind,
              (unsigned long long)r->va, (unsigned long long)r->pc, r->text);
    if (card->machine->options.on_fault)
        card->machine->options.on_fault(card->index, r);
}

/* Overwrites the BOs in VRAM that have a handle; of a large BO only the first 16 MiB. */
static void lose_vram(struct kmd_card *card)
{
    struct kmd_machine *machine = card->machine;
    for (uint32_t f = 0; f < machine->files.capacity; f++) {
        const struct kmd_file *file = machine->files.slot[f];
        for (uint32_t i = 0; file && i < file->bos.capacity; i++) {
            const struct kmd_bo *bo = file->bos.slot[i];
            if (bo && bo->card == card && bo->domain == AMDGPU_GEM_DOMAIN_VRAM)
                memset(bo->host, LOST, bo->nbytes < 1 << 24 ? bo->nbytes : 1 << 24);
        }
    }
}

static void reset_rings(struct kmd_card *card, bool cancel)
{
    struct kmd_ring *ring;
    for (uint32_t i = 0; (ring = kmd_ring_at(card, i)); i++) {
        ring->registers_lost = true;
        if (cancel && ring->running)
            __atomic_store_n(&ring->cancel, 1, __ATOMIC_RELAXED);
    }
    pthread_cond_broadcast(&card->work);
}

void kmd_reset(struct kmd_card *card, bool vram_lost)
{
    card->reset_counter++;
    kmd_trace(card->machine, "reset card=%u%s", card->index, vram_lost ? ", VRAM lost" : "");
    if (vram_lost) {
        card->vram_lost_counter++;
        lose_vram(card);
    }
    if (card->l2)
        sp_l2_reset(card->l2, vram_lost);
    /* If VRAM is not lost, running jobs go on here. The real kernel driver submits them to the
     * hardware again. */
    reset_rings(card, vram_lost);
}

void kmd_unplug(struct kmd_card *card)
{
    struct kmd_ring *ring;
    card->unplugged = true;
    for (uint32_t i = 0; (ring = kmd_ring_at(card, i)); i++)
        __atomic_store_n(&ring->cancel, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&card->work);
    pthread_cond_broadcast(&card->machine->changed);
}
