/* How far a queue is: events are asked, oldest first; what follows the last event is asked of the stream. */
#include "cuda/device/device.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Times of timestamp records, written where they were asked for. */
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
        end_ns = end_ns > start_ns ? end_ns : start_ns + 1; /* the driver's clock has steps of half a microsecond */
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

/* The device is gone: nothing that was on its way ends any other way than by that. */
static void fail_all(struct sp_cuda_queue *q)
{
    if (atomic_load(&q->good) == UINT64_MAX)
        atomic_store(&q->good, atomic_load(&q->reached));
    sp_cuda_not_open(q);
    while (q->head) {
        struct sp_cuda_flight *f = q->head;
        q->head = f->next;
        sp_cuda_flight_abandon(q, f); /* the driver may still write there */
    }
    q->tail = NULL;
    atomic_store(&q->reached, sp_queue_newest(&q->q));
}

static size_t add_names(const void *records, size_t nbytes, char *out, size_t used, size_t capacity)
{
    const unsigned char *p = records;
    for (size_t at = 0; at + sizeof(struct sp_cmd) <= nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        if (head->kind == SP_CMD_DISPATCH) {
            const struct sp_cuda_kernel *k =
                (const void *)(uintptr_t)((const struct sp_cmd_dispatch *)(const void *)head)->kernel;
            if (!strstr(out, k->name) && used + strlen(k->name) + 3 < capacity)
                used += (size_t)snprintf(out + used, capacity - used, "%s%s", used ? ", " : "", k->name);
        }
        at += head->nbytes;
    }
    return used;
}

/* The kernels that had not ended yet, oldest first: one of them it was. */
static void suspects(struct sp_cuda_queue *q, char *out, size_t capacity)
{
    size_t used = 0;
    uint64_t reached = atomic_load(&q->reached), submitted = sp_queue_newest(&q->q);
    const struct sp_cuda_flight *f = q->head;
    out[0] = '\0';
    if (submitted - reached > SP_CUDA_RECENT)
        reached = submitted - SP_CUDA_RECENT;
    for (uint64_t value = reached + 1; value <= submitted; value++) {
        const struct sp_cuda_recent *r = &q->recent[value % SP_CUDA_RECENT];
        if (r->value == value && r->nbytes <= sizeof r->record)
            used = add_names(r->record, r->nbytes, out, used, capacity);
        else if (r->value == value)
            used = add_names(r->record, sizeof(struct sp_cmd_dispatch), out, used, capacity);
        while (f && f->value < value)
            f = f->next;
        if (f && f->value == value)
            used = add_names(f->records, f->nbytes, out, used, capacity);
    }
}

int sp_cuda_failed(struct sp_cuda_queue *q, const char *call, int result)
{
    char said[300] = "", names[200] = "", all[600];
    if (__builtin_expect(result == CU_OK, 1))
        return 0;
    int rc = sp_cu_rc(call, result);
    if (!sp_cu_is_sticky(result))
        return rc;
    if (result == CU_CONTEXT_IS_DESTROYED)
        sp_cuda_reset_by_others(q->dev);
    sp_cuda_why(said, sizeof said - 1);
    suspects(q, names, sizeof names);
    snprintf(all, sizeof all, "%s%s%s: close the device and open it again", said, names[0] ? ", while this ran: " : "", names);
    sp_cuda_lose(q->dev, all);
    fail_all(q);
    return -ENODEV;
}

void sp_cuda_mark(struct sp_cuda_queue *q)
{
    struct sp_cuda_flight *f = sp_cuda_flight_new(NULL, 0);
    if (!f)
        return;
    f->mark = 1;
    f->value = sp_queue_newest(&q->q);
    if (sp_cuda_event_take(q, q->timing, &f->end) || sp_cuEventRecord(f->end, q->stream)) {
        sp_cuda_flight_drop(q, f); /* the stream itself can be asked, too */
        return;
    }
    f->submitted_ns = sp_clock_ns();
    q->marked = f->value;
    if (q->tail)
        q->tail->next = f;
    else
        q->head = f;
    q->tail = f;
}

void sp_cuda_mark_asked(struct sp_cuda_queue *q)
{
    if (q->asked == sp_queue_newest(&q->q) && sp_cuda_near(q->dev) == 0)
        sp_cuda_mark(q);
    q->asked = 0;
}

/* Another library may have made another context current in this thread: asked once more, it is ours. */
static int ask(struct sp_cuda_queue *q, int (*question)(void *), void *of)
{
    int result = CU_NOT_READY;
    if (sp_cuda_near(q->dev) == 0) {
        sp_cuda_relax();
        result = question(of);
    }
    if (sp_cuda_elsewhere(result) && sp_cuda_enter(q->dev) == 0)
        result = question(of);
    return result;
}

/* Whether the answer was an error. An error may pass. A driver that gives nothing else for a second will never say that the
 * work has ended. The second is our choice: two questions of a wait are at most half a millisecond apart. */
static int refused(struct sp_cuda_queue *q, const char *call, int result)
{
    static const uint64_t MOST_NS = UINT64_C(1000000000);
    char why[120];
    if (sp_cuda_not_ready(result) || !sp_cuda_failed(q, call, result)) {
        q->refused_ns = 0;
        return 0;
    }
    uint64_t now = sp_clock_ns();
    if (!q->refused_ns)
        q->refused_ns = now;
    if (now - q->refused_ns < MOST_NS || atomic_load(&q->dev->common.lost))
        return 1;
    snprintf(why, sizeof why, "%s gives error %d, again and again: how far the work is cannot be known", call, result);
    sp_cuda_lose(q->dev, why);
    fail_all(q);
    return 1;
}

int sp_cuda_ended(struct sp_cuda_queue *q, void *event)
{
    int result = ask(q, sp_cuEventQuery, event);
    return !refused(q, "cuEventQuery", result) && result == CU_OK;
}

void sp_cuda_progress(struct sp_cuda_queue *q)
{
    if (atomic_load(&q->dev->common.lost)) {
        fail_all(q);
        return;
    }
    while (q->head) {
        if (!sp_cuda_land(q, q->head) || !sp_cuda_ended(q, q->head->end))
            return;
        complete(q, q->head);
    }
    uint64_t submitted = sp_queue_newest(&q->q);
    if (atomic_load(&q->reached) == submitted)
        return;
    int result = ask(q, sp_cuStreamQuery, q->stream);
    if (refused(q, "cuStreamQuery", result))
        return;
    if (result == CU_OK)
        atomic_store(&q->reached, submitted);
    q->asked = result == CU_OK ? 0 : submitted;
}

/* The caller leaves. */
static uint64_t look(struct sp_cuda_queue *q)
{
    uint64_t reached = atomic_load(&q->reached);
    if (reached == sp_queue_newest(&q->q) || !sp_queue_usable(&q->q))
        return reached;
    if (pthread_mutex_trylock(q->q.lock))
        return reached; /* who holds it submits, or asks as we would */
    sp_cuda_progress(q);
    pthread_mutex_unlock(q->q.lock);
    return atomic_load(&q->reached);
}

uint64_t sp_cuda_reached(struct sp_cuda_queue *q)
{
    uint64_t reached = look(q);
    sp_cuda_leave();
    return reached;
}

static void nap(uint64_t ns)
{
    struct timespec t = {.tv_nsec = (long)ns};
    nanosleep(&t, NULL);
}

/* The driver's own waits know no timeout: it is asked again and again. At first spinning where there are cores to spare,
 * else by letting others run in between, then after naps of a tenth of the time waited so far. */
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
            nap(ns < timeout_ns - waited ? ns : timeout_ns - waited);
        }
    }
    return 0;
}

int sp_cuda_wait(struct sp_cuda_queue *q, uint64_t value, uint64_t timeout_ns)
{
    int rc = sp_queue_may_wait(&q->q, value);
    if (rc == 0 && sp_cuda_reached_so_far(q) < value)
        rc = wait_until(q, value, timeout_ns);
    sp_cuda_leave();
    if (rc)
        return rc;
    return value > atomic_load(&q->good) ? -ENODEV : sp_queue_outcome(&q->q, value);
}

void sp_cuda_keep_words(struct sp_cuda_queue *q, uint64_t value)
{
    struct sp_cuda_fault *kept = &q->faults[q->nfaults++ % SP_CUDA_FAULTS];
    kept->value = value;
    kept->words[sp_cuda_why(kept->words, sizeof kept->words - 1)] = '\0';
}

/* A later submission fails for what an earlier one did: the newest words up to it. */
static const struct sp_cuda_fault *words_of(const struct sp_cuda_queue *q, uint64_t value)
{
    const struct sp_cuda_fault *found = NULL;
    for (uint32_t i = 0; i < SP_CUDA_FAULTS; i++) {
        const struct sp_cuda_fault *kept = &q->faults[i];
        if (kept->value && kept->value <= value && (!found || kept->value >= found->value))
            found = kept;
    }
    return found;
}

size_t sp_cuda_fault(struct sp_cuda_queue *q, uint64_t value, char *out, size_t capacity)
{
    size_t nbytes = 0;
    if (!sp_queue_usable(&q->q))
        return 0;
    pthread_mutex_lock(q->q.lock);
    const struct sp_cuda_fault *kept = words_of(q, value);
    if (kept) {
        nbytes = strlen(kept->words) < capacity ? strlen(kept->words) : capacity;
        memcpy(out, kept->words, nbytes);
    }
    pthread_mutex_unlock(q->q.lock);
    return nbytes;
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
    if (found) { /* which record of a list runs is not known: the first stands for all */
        out->running_at = value == reached + 1 ? 0 : nbytes;
        out->running_ns = value == reached + 1 && since ? sp_clock_ns() - since : 0;
        if (records && nbytes)
            memcpy(records, found, nbytes < capacity ? nbytes : capacity);
    }
    pthread_mutex_unlock(q->q.lock);
    return found ? (int64_t)nbytes : -ENOENT;
}
