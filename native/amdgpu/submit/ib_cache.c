/* Keeps the IB of a submission and sends that IB again when the same records are submitted again.
 *
 * If records fit into one job, the queue keeps their IB and its arguments in a slot of its own.
 * That slot lies behind the slots of the ring. Sending the records again costs one CS request and
 * one timeline value, even while earlier submissions of them are in flight.
 *
 * The queue finds an IB by the bytes of its records, whoever submits them. Equal records make the
 * same IB, unless a part of the IB belongs to one submission only. Such parts are clocks, waits,
 * scratch memory, bounce buffers, and packets that wait until the GPU is idle and then write a
 * number. No IB for the copy engine (SDMA) is kept. */
#include "ib_cache.h"
#include "amdgpu/flight/flight.h"
#include "amdgpu/progress/progress.h"
#include "core/base.h"
#include "job.h"
#include "bo_list.h"

#include <stdlib.h>
#include <string.h>

enum { HASHED = 256 };

/* Returns a hash of the first HASHED bytes. Different records may have equal hashes. */
static uint64_t key_of(const unsigned char *records, size_t nbytes)
{
    uint64_t key = nbytes, word;
    for (size_t at = 0; at + sizeof word <= nbytes && at < HASHED; at += sizeof word) {
        memcpy(&word, records + at, sizeof word);
        /* 2^64 / golden ratio: Knuth's multiplicative hash */
        key = (key ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        key ^= key >> 32;
    }
    return key;
}

static int holds(const struct sp_amdgpu_queue *q, const struct sp_cached_ib *r, const void *records, size_t nbytes)
{
    return r->ndw && r->nbytes == nbytes && r->turn == atomic_load_explicit(&q->dev->kernel_turn, memory_order_acquire) &&
           memcmp(r->records, records, nbytes) == 0;
}

static struct sp_cached_ib *find(struct sp_amdgpu_queue *q, const void *records, size_t nbytes)
{
    if (holds(q, &q->recorded[q->guess], records, nbytes))
        return &q->recorded[q->guess];
    uint64_t key = key_of(records, nbytes);
    for (uint32_t i = 0; i < SP_CACHED_IBS; i++)
        if (q->key[i] == key && holds(q, &q->recorded[i], records, nbytes)) {
            q->guess = i;
            return &q->recorded[i];
        }
    return NULL;
}

static uint64_t slot_of(const struct sp_amdgpu_queue *q, const struct sp_cached_ib *r)
{
    return SP_JOBS + (uint64_t)(r - q->recorded);
}

/* Returns 1 if engine `e` can take a kept IB as the queue's next job without a wait: no
 * submission is partly sent, the ring of `e` has room for a job, and the newest submission in
 * flight, if any, uses `e`. */
static int is_free(const struct sp_amdgpu_queue *q, const struct sp_engine *e)
{
    return !q->sending && e->jobs - e->jobs_done < SP_JOBS && (!q->tail || q->tail->engine == e);
}

int64_t sp_ib_cache_resend(struct sp_amdgpu_queue *q, const void *records, size_t nbytes)
{
    struct sp_engine *e = &q->engine[SP_ENGINE_COMPUTE];
    struct sp_cached_ib *r = find(q, records, nbytes);
    if (r && q->head)
        sp_amdgpu_retire(q);
    struct sp_flight *f = r && is_free(q, e) ? sp_flight_begin(q, r, NULL, nbytes) : NULL;
    if (!f)
        return 0;
    f->value = r->used = sp_queue_newest(&q->common) + 1;
    f->engine = e;
    struct sp_job job = {.q = q, .flight = f, .ndw = r->ndw, .ndispatches = r->ndispatches, .slot = slot_of(q, r)};
    job.ib = sp_job_ib(e, job.slot);
    job.va = e->ring->va + job.slot * SP_SLOT_NBYTES;
    int rc = sp_job_send(&job, f->value);
    if (rc) {
        sp_flight_end(q, f);
        return rc;
    }
    sp_count(&q->counted.submissions, 1);
    sp_queue_take_value(&q->common);
    sp_flight_append(q, f);
    return (int64_t)f->value;
}

/* Sends again an IB that the queue keeps, if the job needs no list of memory. Does all possible
 * work before the ioctl, in one function, because the CPU's caches are cold after the ioctl. */
static int64_t send_at_once(struct sp_amdgpu_queue *q, struct sp_cached_ib *r, struct sp_flight *f)
{
    struct sp_engine *e = &q->engine[SP_ENGINE_COMPUTE];
    struct sp_flight *const next = f->next;
    const uint64_t value = sp_queue_newest(&q->common) + 1, slot = slot_of(q, r);
    struct sp_invalidate invalid;
    sp_caches_look(q, e, 0, &invalid);
    sp_caches_put(sp_job_ib(e, slot), &invalid, r->flights);
    *f = (struct sp_flight){.value = value, .engine = e, .recorded = r, .records = r->records, .nbytes = r->nbytes};
    f->submitted_ns = sp_clock_coarse_ns();
    q->again.ib.va_start = e->ring->va + slot * SP_SLOT_NBYTES;
    q->again.ib.ib_bytes = r->ndw * 4;
    q->again.signal.point = value;
    union drm_amdgpu_cs args;
    if (sp_job_ioctl(q, q->again.pointer, SP_AGAIN, &args) < 0) {
        /* the assignment to `*f` cleared `next`; `f` stays first in `spare`, the list of unused
         * structs */
        f->next = next;
        return 0;
    }
    q->spare = next;
    r->flights++;
    r->used = value;
    sp_count(&q->counted.submissions, 1);
    sp_flight_count_job(q, e, args.out.handle, r->ndw, r->ndispatches);
    sp_caches_done(e, slot, &invalid);
    sp_flight_append(q, f);
    sp_queue_take_value(&q->common);
    return (int64_t)value;
}

int64_t sp_amdgpu_resend(void *queue, const void *records, size_t nbytes, uint64_t epoch)
{
    struct sp_amdgpu_queue *const q = queue;
    int64_t value = 0;
    if (sp_queue_try(&q->common, epoch))
        return 0;
    if (is_free(q, &q->engine[SP_ENGINE_COMPUTE]) && q->spare) {
        struct sp_cached_ib *r = find(q, records, nbytes);
        if (r && !r->list.n && sp_bo_list_is_current(q->dev, &r->list))
            value = send_at_once(q, r, q->spare);
    }
    return sp_queue_leave(&q->common, value);
}

/* Returns 1 if the IBs of all submissions begin and end with the same dwords. */
static int ends_alike(const struct sp_amdgpu_setup *s)
{
    return !s->begin.va_at[0] && !s->between.va_at[0] && !s->idle.va_at[0];
}

struct sp_cached_ib *sp_ib_cache_reserve(struct sp_amdgpu_queue *q, const void *records, size_t nbytes)
{
    struct sp_cached_ib *r = NULL;
    if (nbytes == 0 || nbytes > SP_SLOT_NBYTES || q->common.ledger.times || !ends_alike(&q->dev->setup))
        return NULL;
    for (struct sp_cached_ib *other = q->recorded; other < q->recorded + SP_CACHED_IBS; other++)
        if (!other->flights && (!r || other->used < r->used))
            r = other; /* the free slot that was least recently used */
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
    q->key[r - q->recorded] = key_of(records, nbytes);
    r->turn = atomic_load_explicit(&q->dev->kernel_turn, memory_order_acquire);
    r->used = sp_queue_newest(&q->common) + 1;
    return r;
}

uint64_t sp_ib_cache_slot(const struct sp_amdgpu_queue *q, const struct sp_flight *f)
{
    return f->recorded && !f->begun ? slot_of(q, f->recorded) : f->engine->jobs % SP_JOBS;
}

void sp_ib_cache_store(const struct sp_job *job)
{
    struct sp_cached_ib *r = job->flight->recorded;
    if (!r || job->flight->begun || job->clocks)
        return;
    r->ndw = job->ndw;
    r->ndispatches = job->ndispatches;
}

void sp_ib_cache_free(struct sp_amdgpu_queue *q)
{
    for (int i = 0; i < SP_CACHED_IBS; i++) {
        free(q->recorded[i].records);
        free(q->recorded[i].list.at);
    }
    while (q->spare) {
        struct sp_flight *f = q->spare;
        q->spare = f->next;
        free(f);
    }
}
