/* "Event Management". An event is the ticket of its last record; its time is written when the stream gets there. */
#include "../include/fake.h"

#include <stdlib.h>

struct fk_event {
    CUevent handle;
    struct fk_context *ctx;
    unsigned flags;
    _Atomic int references; /* the handle's, and one for each record that is queued */
    pthread_mutex_t lock;   /* of what follows */
    struct fk_stream *stream; /* NULL: never recorded, which counts as reached */
    uint64_t value;
    struct fk_capture *capture; /* the last record was part of it */
    uint64_t records, timed; /* which record is the last; which one `time_ns` is of */
    int64_t time_ns;
    struct fk_event *next; /* of all */
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fk_event *events;

void fk_event_release(struct fk_event *event)
{
    if (atomic_fetch_sub(&event->references, 1) == 1) {
        pthread_mutex_destroy(&event->lock);
        free(event);
    }
}

static void destroy(struct fk_event *event)
{
    pthread_mutex_lock(&lock);
    for (struct fk_event **at = &events; *at; at = &(*at)->next)
        if (*at == event) {
            *at = event->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    fk_handle_free(event->handle);
    fk_event_release(event);
}

void fk_events_drop_context(struct fk_context *ctx)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        struct fk_event *found = events;
        while (found && found->ctx != ctx)
            found = found->next;
        pthread_mutex_unlock(&lock);
        if (!found)
            return;
        destroy(found);
    }
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    FK_ENTER_CONTEXT(cuEventCreate);
    if (!event || flags > 7 || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    struct fk_event *const e = calloc(1, sizeof *e);
    if (!e || !(e->handle = fk_handle_new(FK_EVENT, e)))
        return free(e), CUDA_ERROR_OUT_OF_MEMORY;
    e->ctx = ctx;
    e->flags = flags;
    atomic_store(&e->references, 1);
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_lock(&lock);
    e->next = events;
    events = e;
    pthread_mutex_unlock(&lock);
    *event = e->handle;
    return 0;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    FK_ENTER(cuEventDestroy_v2);
    struct fk_event *const e = fk_object(event, FK_EVENT);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    destroy(e);
    return 0;
}

int fk_run_record(struct fk_stream *stream, struct fk_op *op)
{
    struct fk_event *const e = op->record.event;
    if (e->flags & CU_EVENT_DISABLE_TIMING)
        return 0;
    int64_t now = fk_now();
    if (atomic_load(&fk_model.on)) /* when that would have been, were sleeps exact */
        now = stream->model_end > op->queued ? stream->model_end : op->queued;
    pthread_mutex_lock(&e->lock);
    e->timed = op->record.ticket;
    e->time_ns = now;
    pthread_mutex_unlock(&e->lock);
    return 0;
}

static int record(struct fk_context *ctx, CUevent event, CUstream stream)
{
    struct fk_event *const e = fk_object(event, FK_EVENT);
    struct fk_stream *s;
    int rc = fk_stream_of(ctx, stream, &s);
    if (!e || rc != 0 || e->ctx != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture && !fk_capture_valid(s->capture))
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    pthread_mutex_lock(&e->lock);
    e->capture = s->capture;
    struct fk_op *const op = s->capture ? NULL : fk_begin(s, fk_run_record, FK_NO_ENGINE, &rc);
    if (op) {
        atomic_fetch_add(&e->references, 1);
        op->record.event = e;
        op->record.ticket = ++e->records;
        e->stream = s;
        e->value = fk_push(s, op);
    }
    pthread_mutex_unlock(&e->lock);
    return rc;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    FK_ENTER_CONTEXT(cuEventRecord);
    return record(ctx, event, stream);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    FK_ENTER_CONTEXT(cuEventRecordWithFlags);
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(ctx, event, stream);
}

/* The ticket of the last record; NULL: there was none. */
static struct fk_stream *ticket_of(struct fk_event *e, uint64_t *value)
{
    pthread_mutex_lock(&e->lock);
    struct fk_stream *const s = e->stream;
    *value = e->value;
    pthread_mutex_unlock(&e->lock);
    return s;
}

CUresult cuEventQuery(CUevent event)
{
    uint64_t value;
    FK_ENTER(cuEventQuery);
    struct fk_event *const e = fk_object(event, FK_EVENT);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    struct fk_stream *const s = ticket_of(e, &value);
    if (e->capture)
        return fk_capture_spoil(e->capture), CUDA_ERROR_CAPTURED_EVENT;
    if (s && !fk_reached(s, value)) {
        if (atomic_load(&e->ctx->sticky) == 0) {
            fk_kick(s);
            return CUDA_ERROR_NOT_READY;
        }
    }
    return atomic_load(&e->ctx->sticky);
}

CUresult cuEventSynchronize(CUevent event)
{
    uint64_t value;
    FK_ENTER(cuEventSynchronize);
    struct fk_event *const e = fk_object(event, FK_EVENT);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    struct fk_stream *const s = ticket_of(e, &value);
    if (s)
        fk_await(s, value);
    return atomic_load(&e->ctx->sticky);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    struct fk_stream *s;
    uint64_t value;
    FK_ENTER_CONTEXT(cuStreamWaitEvent);
    struct fk_event *const e = fk_object(event, FK_EVENT);
    int rc = fk_stream_of(ctx, stream, &s);
    if (!e || rc != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->capture) {
        if (!fk_capture_going_on(e->capture))
            return CUDA_ERROR_CAPTURED_EVENT;
        s->capture = e->capture; /* it joins, if it was not in it */
        return 0;
    }
    if (s->capture)
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    struct fk_stream *const on = ticket_of(e, &value);
    if (!on || on == s || fk_reached(on, value))
        return 0;
    struct fk_op *const op = fk_begin(s, fk_run_wait, FK_NO_ENGINE, &rc);
    if (!op)
        return rc;
    op->wait.stream = on;
    op->wait.value = value;
    fk_push(s, op);
    return 0;
}

static int elapsed(float *ms, CUevent start, CUevent end)
{
    struct fk_event *const pair[2] = {fk_object(start, FK_EVENT), fk_object(end, FK_EVENT)};
    int64_t time_ns[2];
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (!pair[0] || !pair[1])
        return CUDA_ERROR_INVALID_HANDLE;
    for (int i = 0; i < 2; i++) {
        uint64_t value;
        struct fk_stream *const s = ticket_of(pair[i], &value);
        if (!s || pair[i]->flags & CU_EVENT_DISABLE_TIMING)
            return CUDA_ERROR_INVALID_HANDLE;
        if (!fk_reached(s, value)) {
            fk_kick(s);
            return CUDA_ERROR_NOT_READY;
        }
        pthread_mutex_lock(&pair[i]->lock);
        time_ns[i] = pair[i]->time_ns;
        pthread_mutex_unlock(&pair[i]->lock);
    }
    *ms = (float)((double)(time_ns[1] - time_ns[0]) / 1e6);
    return 0;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    FK_ENTER_CONTEXT(cuEventElapsedTime);
    (void)ctx;
    return elapsed(ms, start, end);
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    FK_ENTER_CONTEXT(cuEventElapsedTime_v2);
    (void)ctx;
    return elapsed(ms, start, end);
}
