/* A flight is a submission in flight that ends with an event. */
#include "flight.h"
#include "cuda/device/pinned.h"
#include "events.h"
#include "slots.h"

#include <stdlib.h>
#include <string.h>

struct sp_cuda_flight *sp_cuda_flight_new(const void *records, size_t nbytes)
{
    struct sp_cuda_flight *f = malloc(sizeof *f + nbytes);
    if (!f)
        return NULL;
    memset(f, 0, sizeof *f);
    f->nbytes = nbytes;
    if (nbytes)
        memcpy(f->records, records, nbytes);
    return f;
}

void sp_cuda_flight_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    sp_cuda_event_give(q, 1, f->start);
    sp_cuda_event_give(q, q->timing, f->end);
    for (uint32_t i = 0; i < f->nstamps; i++)
        sp_cuda_event_give(q, 1, f->stamps[i]);
    while (f->slots)
        sp_cuda_slot_drop(q, f);
    sp_cuda_pinned_give(q->dev, f->staging, f->staging_nbytes);
    free(f->stamps);
    free(f);
}

void sp_cuda_flight_abandon(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    f->staging = NULL;
    for (struct sp_cuda_slot *slot = f->slots; slot; slot = slot->next)
        slot->host = NULL;
    sp_cuda_flight_drop(q, f);
}
