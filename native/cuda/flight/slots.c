/* Slots: page-locked memory for the pieces of a transfer. */
#include "slots.h"
#include "cuda/device/pinned.h"
#include "events.h"

#include <errno.h>
#include <stdlib.h>

int sp_cuda_slot_add(struct sp_cuda_queue *q, struct sp_cuda_flight *f, uint64_t nbytes, struct sp_cuda_slot **out)
{
    struct sp_cuda_slot *slot = calloc(1, sizeof *slot);
    if (!slot)
        return -ENOMEM;
    int rc = sp_cuda_pinned_take(q->dev, nbytes, &slot->host, &slot->capacity);
    if (rc) {
        free(slot);
        return rc;
    }
    slot->nbytes = nbytes;
    if (f->last)
        f->last->next = slot;
    else
        f->slots = slot;
    f->last = slot;
    *out = slot;
    return 0;
}

static struct sp_cuda_slot *unlink_oldest(struct sp_cuda_flight *f)
{
    struct sp_cuda_slot *slot = f->slots;
    f->slots = slot->next;
    if (!f->slots)
        f->last = NULL;
    slot->next = NULL;
    return slot;
}

struct sp_cuda_slot *sp_cuda_slot_turn(struct sp_cuda_flight *f)
{
    struct sp_cuda_slot *slot = unlink_oldest(f);
    if (f->last)
        f->last->next = slot;
    else
        f->slots = slot;
    f->last = slot;
    return slot;
}

void sp_cuda_slot_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    struct sp_cuda_slot *slot = unlink_oldest(f);
    sp_cuda_event_give(q, 0, slot->event);
    sp_cuda_pinned_give(q->dev, slot->host, slot->capacity);
    free(slot);
}
