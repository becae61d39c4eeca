/* Submissions in flight: how they begin, and how their memory is released. */
#include "flight.h"
#include "link.h"
#include "core/base.h"

#include <stdlib.h>
#include <string.h>

struct sp_flight *sp_flight_begin(struct sp_amdgpu_queue *q, struct sp_cached_ib *recorded, const void *records, size_t nbytes)
{
    struct sp_flight *f = recorded ? q->spare : NULL;
    if (f)
        q->spare = f->next;
    else
        f = malloc(sizeof *f + (recorded ? 0 : nbytes));
    if (!f)
        return NULL;
    *f = (struct sp_flight){.nbytes = nbytes, .recorded = recorded, .submitted_ns = sp_clock_coarse_ns()};
    if (recorded) {
        f->records = recorded->records;
        recorded->flights++;
    } else {
        f->records = f->copy;
        if (nbytes)
            memcpy(f->copy, records, nbytes);
    }
    return f;
}

void sp_flight_end(struct sp_amdgpu_queue *q, struct sp_flight *f)
{
    for (int i = 0; i < 2; i++)
        sp_amdgpu_free(f->transfer.kept[i]);
    sp_amdgpu_free(f->bounce);
    sp_amdgpu_link_close(f->transfer.link);
    if (!f->recorded) {
        free(f);
        return;
    }
    f->recorded->flights--;
    f->next = q->spare;
    q->spare = f;
}
