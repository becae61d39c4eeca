/* Queries the driver: whether work has ended, and whether the driver still gives answers. */
#include "query.h"
#include "cuda/device/context.h"
#include "cuda/device/lost.h"
#include "failure.h"

#include <stdio.h>

/* Queries the driver by `question(of)`. Another library may have changed this thread's current
 * context. If such a change may have caused the result, makes our context current and queries
 * again. */
int sp_cuda_query(struct sp_cuda_queue *q, int (*question)(void *), void *of)
{
    int result = CU_NOT_READY;
    if (sp_cuda_make_current(q->dev) == 0) {
        sp_cuda_relax();
        result = question(of);
    }
    if (sp_cuda_elsewhere(result) && sp_cuda_enter(q->dev) == 0)
        result = question(of);
    return result;
}

/* Returns 1 if the query's result was an error. One error may be temporary. But if the driver
 * returns only errors for a second, it will never report the end of the work, so the device counts
 * as lost. The queries of a wait are at most half a millisecond apart, so a second has many of
 * them. */
int sp_cuda_refused(struct sp_cuda_queue *q, const char *call, int result)
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
    snprintf(why, sizeof why, "%s keeps returning error %d: the progress of the work is unknown", call, result);
    sp_cuda_lose(q->dev, why);
    sp_cuda_fail_all(q);
    return 1;
}

int sp_cuda_ended(struct sp_cuda_queue *q, void *event)
{
    int result = sp_cuda_query(q, sp_cuEventQuery, event);
    return !sp_cuda_refused(q, "cuEventQuery", result) && result == CU_OK;
}
