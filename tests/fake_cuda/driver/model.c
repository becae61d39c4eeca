/* Time that ops are made to take, so that overlap can be seen on any machine. Each engine of a device is busy with one
 * op at a time, as on a GPU that one kernel fills; an op begins when its stream and its engine are free. Ends are
 * reckoned, not measured: a sleep that lasts too long makes the next op no later. */
#include "../include/fake.h"

#include <errno.h>
#include <time.h>

struct fk_model fk_model;

int64_t fk_now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

int64_t fk_modelled(struct fk_stream *stream, const struct fk_op *op, uint64_t nbytes)
{
    const double rate = fk_model.bytes_per_ns[op->engine];
    const int64_t takes = op->engine == FK_COMPUTE ? fk_model.kernel_ns : rate > 0 ? (int64_t)((double)nbytes / rate) : 0;
    _Atomic int64_t *const busy = &stream->ctx->device->busy_until[op->engine];
    int64_t begin = op->queued > stream->model_end ? op->queued : stream->model_end;
    int64_t was = atomic_load(busy);
    if (takes == 0)
        return 0;
    do
        begin = begin > was ? begin : was;
    while (!atomic_compare_exchange_weak(busy, &was, begin + takes));
    return stream->model_end = begin + takes;
}

void fk_sleep_until(int64_t when)
{
    const struct timespec at = {.tv_sec = when / 1000000000, .tv_nsec = when % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}
