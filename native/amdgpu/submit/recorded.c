/* Records that come again. The IB of what became one job stays where it was encoded, in a slot behind those that the jobs use
 * in turn, with the arguments of its dispatches: sent again it is a request and a value, however many are on their way.
 *
 * An IB is recognised by its records, not by who submits them: equal bytes of kernels that are still there make the same IB,
 * as long as nothing in it belongs to one submission alone. That is what has clocks, waits, scratch or memory between copies,
 * whatever the other engine does, and every IB whose ending carries a number. */
#include "recorded.h"
#include "amdgpu/flight/flight.h"
#include "amdgpu/progress/progress.h"
#include "job.h"

#include <stdlib.h>
#include <string.h>

enum { HASHED = 256 };

/* Of the first bytes; equal ones may still differ. */
static uint64_t key_of(const unsigned char *records, size_t nbytes)
{
    uint64_t key = nbytes, word;
    for (size_t at = 0; at + sizeof word <= nbytes && at < HASHED; at += sizeof word) {
        memcpy(&word, records + at, sizeof word);
        key = (key ^ word) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio: Knuth's multiplicative hashing */
        key ^= key >> 32;
    }
    return key;
}

static int holds(const struct sp_amdgpu_queue *q, const struct sp_recorded *r, const void *records, size_t nbytes)
{
    return r->ndw && r->nbytes == nbytes && r->turn == atomic_load_explicit(&q->dev->kernel_turn, memory_order_acquire) &&
           memcmp(r->records, records, nbytes) == 0;
}

static struct sp_recorded *find(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint32_t *guess)
{
    if (holds(q, &q->recorded[*guess % SP_RECORDED], records, nbytes))
        return &q->recorded[*guess % SP_RECORDED];
    uint64_t key = key_of(records, nbytes);
    for (uint32_t i = 0; i < SP_RECORDED; i++)
        if (q->recorded[i].key == key && holds(q, &q->recorded[i], records, nbytes)) {
            *guess = i;
            return &q->recorded[i];
        }
    return NULL;
}

static uint64_t slot_of(const struct sp_amdgpu_queue *q, const struct sp_recorded *r)
{
    return SP_JOBS + (uint64_t)(r - q->recorded);
}

int64_t sp_recorded_again(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint32_t *guess)
{
    struct sp_engine *e = &q->engine[SP_ENGINE_COMPUTE];
    struct sp_recorded *r = find(q, records, nbytes, guess);
    if (!r || q->sending)
        return 0;
    if (q->head)
        sp_amdgpu_retire(q);
    if (e->jobs - e->jobs_done >= SP_JOBS || (q->tail && q->tail->engine != e))
        return 0;
    struct sp_flight *f = sp_flight_begin(q, r, NULL, nbytes);
    if (!f)
        return 0;
    f->value = sp_queue_newest(&q->common) + 1;
    f->engine = e;
    r->used = f->value;
    struct sp_job job = {.q = q, .flight = f, .ndw = r->ndw, .ndispatches = r->ndispatches};
    job.va = e->ring->va + slot_of(q, r) * SP_SLOT_NBYTES;
    int rc = sp_job_send(&job, f->value);
    if (rc) {
        sp_flight_end(q, f);
        return rc;
    }
    atomic_fetch_add_explicit(&q->dev->submissions, 1, memory_order_relaxed);
    sp_queue_take_value(&q->common);
    sp_flight_line_up(q, f);
    return (int64_t)f->value;
}

/* Has every IB what only one submission can have? */
static int ends_alike(const struct sp_amdgpu_setup *s)
{
    return !s->begin.va_at[0] && !s->between.va_at[0] && !s->idle.va_at[0];
}

struct sp_recorded *sp_recorded_begin(struct sp_amdgpu_queue *q, const void *records, size_t nbytes)
{
    struct sp_recorded *r = NULL;
    if (nbytes == 0 || nbytes > SP_SLOT_NBYTES || q->common.ledger.times || !ends_alike(&q->dev->setup))
        return NULL;
    for (struct sp_recorded *other = q->recorded; other < q->recorded + SP_RECORDED; other++)
        if (!other->flights && (!r || other->used < r->used))
            r = other; /* used longest ago */
    if (!r)
        return NULL;
    r->ndw = 0;
    if (r->capacity < nbytes) {
        void *more = realloc(r->records, nbytes);
        if (!more)
            return NULL;
        r->records = more;
        r->capacity = nbytes;
    }
    memcpy(r->records, records, nbytes);
    r->nbytes = nbytes;
    r->key = key_of(records, nbytes);
    r->turn = atomic_load_explicit(&q->dev->kernel_turn, memory_order_acquire);
    r->used = sp_queue_newest(&q->common) + 1;
    return r;
}

uint64_t sp_recorded_slot(const struct sp_amdgpu_queue *q, const struct sp_flight *f)
{
    return f->recorded && !f->begun ? slot_of(q, f->recorded) : f->engine->jobs % SP_JOBS;
}

void sp_recorded_keep(const struct sp_job *job)
{
    struct sp_recorded *r = job->flight->recorded;
    if (!r || job->flight->begun || job->clocks)
        return;
    r->ndw = job->ndw;
    r->ndispatches = job->ndispatches;
}

void sp_recorded_free(struct sp_amdgpu_queue *q)
{
    for (int i = 0; i < SP_RECORDED; i++)
        free(q->recorded[i].records);
    while (q->spare) {
        struct sp_flight *f = q->spare;
        q->spare = f->next;
        free(f);
    }
}
