/* Tracks the progress of a queue: queries its events, oldest first, then the stream for work after
 * the last event. */
#include "progress.h"
#include "core/timeline.h"
#include "cuda/device/driver.h"
#include "cuda/flight/query.h"
#include "cuda/flight/events.h"
#include "cuda/flight/failure.h"
#include "cuda/flight/flight.h"
#include "cuda/memory/memory.h"
#include "pieces.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* Writes the time of each timestamp record of a flight to the address that the record names. */
static void stamp(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    uint32_t i = 0;
    for (size_t at = 0; at < f->nbytes && i < f->nstamps;) {
        const struct sp_cmd *head = (const void *)(f->records + at);
        if (head->kind == SP_CMD_TIMESTAMP) {
            uint64_t ns = sp_cuda_event_ns(q->dev, &f->stamps[i++]);
            void *slot = sp_cuda_reach(q->dev, ((const struct sp_cmd_timestamp *)(const void *)head)->slot, 8);
            if (slot)
                memcpy(slot, &ns, sizeof ns);
        }
        at += head->nbytes;
    }
}

static void complete(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    uint64_t start_ns = 0, end_ns = 0;
    if (f->start) {
        start_ns = sp_cuda_event_ns(q->dev, &f->start);
        end_ns = sp_cuda_event_ns(q->dev, &f->end);
        /* The driver's clock has steps of half a microsecond, so both times may be equal. */
        end_ns = end_ns > start_ns ? end_ns : start_ns + 1;
    }
    stamp(q, f);
    for (const struct sp_cuda_slot *slot = f->slots; slot; slot = slot->next)
        if (slot->out)
            memcpy(slot->out, slot->host, slot->nbytes);
    if (!f->mark)
        sp_ledger_note(&q->q.ledger, f->value, start_ns, end_ns, f->rc);
    q->head = f->next;
    if (!q->head)
        q->tail = NULL;
    atomic_store(&q->reached, f->value);
    sp_cuda_flight_drop(q, f);
}

void sp_cuda_progress(struct sp_cuda_queue *q)
{
    if (atomic_load(&q->dev->common.lost)) {
        sp_cuda_fail_all(q);
        return;
    }
    while (q->head) {
        if (!sp_cuda_receive_pieces(q, q->head) || !sp_cuda_ended(q, q->head->end))
            return;
        complete(q, q->head);
    }
    uint64_t submitted = sp_queue_newest(&q->q);
    if (atomic_load(&q->reached) == submitted)
        return;
    int result = sp_cuda_query(q, sp_cuStreamQuery, q->stream);
    if (sp_cuda_refused(q, "cuStreamQuery", result))
        return;
    if (result == CU_OK)
        atomic_store(&q->reached, submitted);
    q->asked = result == CU_OK ? 0 : submitted;
}

/* Queries the queue unless another thread does, and returns the value that it has reached. The
 * caller calls sp_cuda_leave afterwards. */
static uint64_t look(struct sp_cuda_queue *q)
{
    uint64_t reached = atomic_load(&q->reached);
    if (reached == sp_queue_newest(&q->q) || !sp_queue_usable(&q->q))
        return reached;
    if (pthread_mutex_trylock(q->q.lock))
        /* does not wait for the lock: the thread that holds it submits work or queries this
         * queue */
        return reached;
    sp_cuda_progress(q);
    pthread_mutex_unlock(q->q.lock);
    return atomic_load(&q->reached);
}

uint64_t sp_cuda_reached(void *queue)
{
    struct sp_cuda_queue *const q = queue;
    uint64_t reached = look(q);
    sp_cuda_leave();
    return reached;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec t = {.tv_nsec = (long)ns};
    nanosleep(&t, NULL);
}

/* Waits for `value` by repeated queries, because the driver's waits have no timeout. At first this
 * spins if cores are free, and otherwise yields the core. Later it sleeps between queries for a
 * tenth of the time waited so far. */
static int wait_until(struct sp_cuda_queue *q, uint64_t value, uint64_t timeout_ns)
{
    enum { YIELD_NS = 100000, LEAST_NAP_NS = 10000, MOST_NAP_NS = 500000 };
    uint64_t start = sp_clock_ns(), spin_ns = sp_spin_ns();
    while (look(q) < value) {
        uint64_t waited = sp_clock_ns() - start;
        if (waited >= timeout_ns)
            return -ETIMEDOUT;
        if (waited < spin_ns) {
            for (int i = 0; i < 16; i++)
                sp_cpu_relax();
        } else if (waited < YIELD_NS) {
            sched_yield();
        } else {
            uint64_t ns = waited / 10;
            ns = ns < LEAST_NAP_NS ? LEAST_NAP_NS : ns > MOST_NAP_NS ? MOST_NAP_NS : ns;
            sleep_ns(ns < timeout_ns - waited ? ns : timeout_ns - waited);
        }
    }
    return 0;
}

int sp_cuda_wait(void *queue, uint64_t value, uint64_t timeout_ns)
{
    struct sp_cuda_queue *const q = queue;
    int rc = sp_queue_may_wait(&q->q, value);
    if (rc == 0 && sp_cuda_reached_so_far(q) < value)
        rc = wait_until(q, value, timeout_ns);
    sp_cuda_leave();
    if (rc)
        return rc;
    return value > atomic_load(&q->good) ? -ENODEV : sp_queue_outcome(&q->q, value);
}

int64_t sp_cuda_peek(struct sp_cuda_queue *q, uint64_t value, void *records, size_t capacity, struct sp_progress *out)
{
    const void *found = NULL;
    size_t nbytes = 0;
    uint64_t since = 0;
    memset(out, 0, sizeof *out);
    if (!sp_queue_usable(&q->q))
        return -ECHILD;
    pthread_mutex_lock(q->q.lock);
    sp_cuda_progress(q);
    sp_cuda_leave();
    uint64_t reached = atomic_load(&q->reached);
    for (const struct sp_cuda_flight *f = q->head; f && !found; f = f->next)
        if (f->value == value && !f->mark) {
            found = f->records;
            nbytes = f->nbytes;
            since = f->submitted_ns;
        }
    const struct sp_cuda_recent *r = &q->recent[value % SP_CUDA_RECENT];
    if (!found && value > reached && r->value == value && r->nbytes <= sizeof r->record) {
        found = r->record;
        nbytes = r->nbytes;
    }
    /* `running_at` is the byte offset of the running record. For a list of commands it is 0 while
     * the list runs, because the driver does not say which record is running. */
    if (found) {
        out->running_at = value == reached + 1 ? 0 : nbytes;
        out->running_ns = value == reached + 1 && since ? sp_clock_ns() - since : 0;
        if (records && nbytes)
            memcpy(records, found, nbytes < capacity ? nbytes : capacity);
    }
    pthread_mutex_unlock(q->q.lock);
    return found ? (int64_t)nbytes : -ENOENT;
}
