/* Prepared launches: a record is checked once, when it is prepared, and then launched many
 * times. */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

int sp_prepare(void *queue, const void *record, size_t nbytes, uint64_t epoch, struct sp_prepared **out)
{
    struct sp_queue *q = queue;
    if (!sp_queue_usable(q))
        return -ECHILD;
    struct sp_prepared *p = malloc(sizeof *p + nbytes);
    if (!p)
        return -ENOMEM;
    *p = (struct sp_prepared){.s = {q, p->record, nbytes, epoch}};
    memcpy(p->record, record, nbytes);
    int rc = sp_queue_enter(q, epoch);
    if (rc == 0) {
        rc = p->hint = q->functions->check(q, record, nbytes);
        if (rc >= 0)
            atomic_fetch_add(&q->refs, 1);
        sp_queue_leave(q, 0);
    }
    if (rc < 0)
        free(p);
    else
        *out = p;
    return rc < 0 ? rc : 0;
}

void sp_unprepare(struct sp_prepared *p)
{
    if (!p)
        return;
    sp_queue_release(p->s.queue);
    free(p);
}
