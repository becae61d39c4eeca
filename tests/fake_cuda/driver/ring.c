/* A stream: a ring of ops, one thread that takes them in order. A launch writes one op and wakes nobody; the thread is
 * woken by whoever queries or waits, and after 100 us by the ticker.
 *
 * A ticket is (stream, value): reached when `done` is at least value. Streams are used again, never freed, and their
 * values only grow: a ticket is good for ever. */
#include "../include/fake.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { TICK_NS = 100000, IDLE_TICKS = 50 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows, but for reading `all` */
static struct fk_stream *_Atomic all;
static uint64_t made;
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_t thread;
    bool started;
    _Atomic int asleep;
} ticker = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .asleep = 1};

static struct timespec after_ms(int64_t ms)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

static int start(pthread_t *thread, void *(*body)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 512 << 10);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    const int rc = pthread_create(thread, &attr, body, arg);
    pthread_attr_destroy(&attr);
    return rc;
}

/* ---- the consumer ---- */

/* Runs an op and lets it last as long as the model says. */
int fk_run_timed(struct fk_stream *s, struct fk_op *op, int64_t queued)
{
    int64_t until = 0;
    if (FK_UNLIKELY(atomic_load_explicit(&fk_model.on, memory_order_relaxed)) && op->engine != FK_NO_ENGINE) {
        op->queued = queued;
        until = fk_modelled(s, op, op->run == fk_run_fill ? op->fill.width * op->fill.size * op->fill.height
                                   : op->run == fk_run_copy ? op->copy.nbytes : 0);
    }
    const int rc = op->run(s, op);
    if (until)
        fk_sleep_until(until);
    return rc;
}

static void run_one(struct fk_stream *s, struct fk_op *op)
{
    if (atomic_load_explicit(&s->ctx->sticky, memory_order_relaxed) == 0) {
        const int rc = fk_run_timed(s, op, op->queued);
        if (rc != 0)
            fk_context_fail(s->ctx, rc);
    }
    fk_op_drop(op);
}

static void sleep_until_kicked(struct fk_stream *s)
{
    pthread_mutex_lock(&s->mutex);
    atomic_store(&s->sleeping, 1);
    if (atomic_load(&s->head) == atomic_load(&s->done))
        while (atomic_load(&s->sleeping))
            pthread_cond_wait(&s->work, &s->mutex);
    atomic_store(&s->sleeping, 0);
    pthread_mutex_unlock(&s->mutex);
}

static void *consume(void *arg)
{
    struct fk_stream *const s = arg;
    prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0); /* modelled times are short */
    for (;;) {
        const uint64_t head = atomic_load_explicit(&s->head, memory_order_acquire);
        uint64_t done = atomic_load_explicit(&s->done, memory_order_relaxed);
        if (done == head)
            sleep_until_kicked(s);
        while (done < head) {
            run_one(s, &s->ring[done % FK_RING]);
            atomic_store(&s->done, ++done);
            if (atomic_load(&s->waiters)) {
                pthread_mutex_lock(&s->mutex);
                pthread_cond_broadcast(&s->progress);
                pthread_mutex_unlock(&s->mutex);
            }
        }
    }
    return NULL;
}

void fk_kick(struct fk_stream *s)
{
    atomic_thread_fence(memory_order_seq_cst); /* what was queued before `sleeping` is looked at */
    if (s->started && !atomic_load(&s->sleeping))
        return;
    if (atomic_load(&s->head) == atomic_load(&s->done))
        return;
    pthread_mutex_lock(&s->mutex);
    if (!s->started)
        s->started = start(&s->thread, consume, s) == 0;
    if (atomic_load(&s->sleeping)) {
        atomic_store(&s->sleeping, 0);
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->mutex);
}

/* ---- the ticker ---- */

static bool tick(void)
{
    bool found = false;
    for (struct fk_stream *s = atomic_load(&all); s; s = s->next)
        if (atomic_load(&s->head) != atomic_load(&s->done) && (!s->started || atomic_load(&s->sleeping))) {
            found = true;
            fk_kick(s);
        }
    return found;
}

static void *ticks(void *unused)
{
    int idle = 0;
    prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
    for (;;) {
        fk_sleep_until(fk_now() + TICK_NS);
        idle = tick() ? 0 : idle + 1;
        if (idle < IDLE_TICKS)
            continue;
        idle = 0;
        pthread_mutex_lock(&ticker.mutex);
        atomic_store(&ticker.asleep, 1);
        /* Not for ever: a launch that still saw it awake told nobody. */
        const struct timespec at = after_ms(100);
        while (atomic_load(&ticker.asleep) && pthread_cond_timedwait(&ticker.wake, &ticker.mutex, &at) == 0)
            ;
        atomic_store(&ticker.asleep, 0);
        pthread_mutex_unlock(&ticker.mutex);
    }
    return unused;
}

static __attribute__((noinline)) void wake_ticker(void)
{
    pthread_mutex_lock(&ticker.mutex);
    if (!ticker.started)
        ticker.started = start(&ticker.thread, ticks, NULL) == 0;
    atomic_store(&ticker.asleep, 0);
    pthread_cond_signal(&ticker.wake);
    pthread_mutex_unlock(&ticker.mutex);
}

/* ---- the producer ---- */

static struct fk_op *room(struct fk_stream *s)
{
    const uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
    if (FK_UNLIKELY(head - s->seen >= FK_RING)) {
        s->seen = atomic_load_explicit(&s->done, memory_order_acquire);
        if (head - s->seen >= FK_RING) {
            fk_await(s, head - FK_RING / 2); /* half a ring, so that not every op waits */
            s->seen = atomic_load_explicit(&s->done, memory_order_acquire);
        }
    }
    return &s->ring[head % FK_RING];
}

static void publish(struct fk_stream *s)
{
    const uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
    atomic_store_explicit(&s->head, head + 1, memory_order_release);
}

static void put_wait(struct fk_stream *s, struct fk_stream *on, uint64_t value)
{
    struct fk_op *const op = room(s);
    op->run = fk_run_wait;
    op->engine = FK_NO_ENGINE;
    op->wait.stream = on;
    op->wait.value = value;
    publish(s);
}

/* "Stream synchronization behavior": blocking streams and the legacy one wait for each other. */
static void implicit_order(struct fk_stream *s)
{
    struct fk_stream *const legacy = s->ctx->legacy;
    if (!s->legacy) {
        const uint64_t head = atomic_load_explicit(&legacy->head, memory_order_acquire);
        if (head != s->legacy_seen) {
            s->legacy_seen = head;
            if (!fk_reached(legacy, head))
                put_wait(s, legacy, head);
        }
        return;
    }
    for (struct fk_stream *t = atomic_load(&all); t; t = t->next)
        if (t->ctx == s->ctx && t != s && !(t->flags & CU_STREAM_NON_BLOCKING)) {
            const uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire);
            if (!fk_reached(t, head))
                put_wait(s, t, head);
        }
}

struct fk_op *fk_begin(struct fk_stream *s, fk_run *run, enum fk_engine engine, int *rc)
{
    while (FK_UNLIKELY(atomic_flag_test_and_set_explicit(&s->lock, memory_order_acquire)))
        sched_yield();
    if (FK_UNLIKELY(s->capture != NULL) && !fk_capture_valid(s->capture)) {
        atomic_flag_clear_explicit(&s->lock, memory_order_release);
        *rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        return NULL;
    }
    if (!s->capture && !(s->flags & CU_STREAM_NON_BLOCKING))
        implicit_order(s);
    struct fk_op *const op = room(s);
    op->run = run;
    op->engine = (uint8_t)engine;
    if (FK_UNLIKELY(atomic_load_explicit(&fk_model.on, memory_order_relaxed)))
        op->queued = fk_now();
    *rc = 0;
    return op;
}

uint64_t fk_push(struct fk_stream *s, struct fk_op *op)
{
    if (FK_UNLIKELY(s->capture != NULL)) {
        fk_capture_op(s, op);
        fk_op_drop(op);
        atomic_flag_clear_explicit(&s->lock, memory_order_release);
        return 0;
    }
    publish(s);
    const uint64_t ticket = atomic_load_explicit(&s->head, memory_order_relaxed);
    atomic_flag_clear_explicit(&s->lock, memory_order_release);
    if (FK_UNLIKELY(atomic_load_explicit(&ticker.asleep, memory_order_relaxed)))
        wake_ticker();
    return ticket;
}

void fk_drop(struct fk_stream *s)
{
    atomic_flag_clear_explicit(&s->lock, memory_order_release);
}

int fk_await(struct fk_stream *s, uint64_t value)
{
    if (!fk_reached(s, value)) {
        fk_kick(s);
        pthread_mutex_lock(&s->mutex);
        atomic_fetch_add(&s->waiters, 1);
        while (atomic_load(&s->done) < value)
            pthread_cond_wait(&s->progress, &s->mutex);
        atomic_fetch_sub(&s->waiters, 1);
        pthread_mutex_unlock(&s->mutex);
    }
    return atomic_load(&s->ctx->sticky);
}

int fk_stream_wait(struct fk_stream *s)
{
    return fk_await(s, atomic_load(&s->head));
}

int fk_context_wait(struct fk_context *ctx)
{
    for (struct fk_stream *s = atomic_load(&all); s; s = s->next)
        if (s->ctx == ctx)
            fk_stream_wait(s);
    return atomic_load(&ctx->sticky);
}

/* ---- streams come and go ---- */

static struct fk_stream *unused_stream(void)
{
    for (struct fk_stream *s = atomic_load(&all); s; s = s->next)
        if (!s->ctx || (!s->handle && !s->legacy && atomic_load(&s->head) == atomic_load(&s->done)))
            return s;
    struct fk_stream *const s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    struct fk_op *const ring = malloc(sizeof *ring * FK_RING);
    if (!s || !ring)
        return free(s), free(ring), NULL;
    memset(s, 0, sizeof *s);
    memset(ring, 0, sizeof *ring * FK_RING); /* no page faults in the first launches */
    s->ring = ring;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->progress, NULL);
    s->next = atomic_load(&all);
    atomic_store(&all, s);
    return s;
}

static struct fk_stream *take(struct fk_context *ctx, unsigned flags, int priority, bool legacy)
{
    pthread_mutex_lock(&lock);
    struct fk_stream *const s = unused_stream();
    if (s) {
        s->flags = flags;
        s->priority = priority;
        s->capture = NULL;
        s->legacy = legacy;
        s->legacy_seen = 0;
        s->model_end = 0;
        s->id = ++made;
        s->handle = legacy ? NULL : fk_handle_new(FK_STREAM, s);
        s->ctx = legacy || s->handle ? ctx : NULL;
    }
    pthread_mutex_unlock(&lock);
    return s && s->ctx ? s : NULL;
}

int fk_stream_legacy(struct fk_context *ctx)
{
    ctx->legacy = take(ctx, 0, 0, true);
    return ctx->legacy ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

int fk_stream_make(struct fk_context *ctx, unsigned flags, int priority, struct fk_stream **out)
{
    struct fk_stream *const s = take(ctx, flags, priority, false);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&ctx->lock);
    s->sibling = ctx->streams;
    ctx->streams = s;
    pthread_mutex_unlock(&ctx->lock);
    *out = s;
    return 0;
}

void fk_stream_retire(struct fk_stream *s)
{
    struct fk_context *const ctx = s->ctx;
    if (s->capture)
        fk_capture_abandon(s);
    pthread_mutex_lock(&ctx->lock);
    for (struct fk_stream **at = &ctx->streams; *at; at = &(*at)->sibling)
        if (*at == s) {
            *at = s->sibling;
            break;
        }
    pthread_mutex_unlock(&ctx->lock);
    fk_kick(s);
    pthread_mutex_lock(&lock);
    fk_handle_free(s->handle);
    s->handle = NULL;
    s->legacy = false;
    pthread_mutex_unlock(&lock);
}
