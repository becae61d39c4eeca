/* Orders work of a queue with streams of other libraries in this process, without a wait on the
 * host. */
#include "cuda/device/context.h"
#include "cuda/device/lost.h"
#include "cuda/flight/order.h"
#include "cuda/progress/enter.h"

#include <errno.h>

/* Makes stream `later` wait for all work that was submitted to stream `sooner` before this call.
 * NULL stands for the stream of queue `q`. */
static int chained(struct sp_cuda_queue *q, void *sooner, void *later)
{
    int rc = sp_cuda_queue_enter(q, SP_ANY_EPOCH);
    if (rc)
        return rc;
    rc = sp_cuda_enter(q->dev);
    if (rc == 0)
        rc = sp_cuda_order_memory(q);
    if (rc == 0)
        rc = sp_cuda_chain(q, sooner ? sooner : q->stream, later ? later : q->stream);
    return (int)sp_cuda_queue_leave(q, rc);
}

int sp_cuda_wait_stream(struct sp_cuda_queue *q, uint64_t stream)
{
    return stream ? chained(q, (void *)(uintptr_t)stream, NULL) : -EINVAL;
}

int sp_cuda_order_stream(struct sp_cuda_queue *q, uint64_t stream)
{
    return stream ? chained(q, NULL, (void *)(uintptr_t)stream) : -EINVAL;
}

int sp_cuda_owns(struct sp_cuda *dev, uint64_t address)
{
    int ordinal = -1, rc = sp_cuda_usable(dev) ? sp_cuda_enter(dev) : -ECHILD;
    if (rc)
        return rc;
    int result = sp_cuPointerGetAttribute(&ordinal, CU_POINTER_DEVICE_ORDINAL, address);
    sp_cuda_leave();
    if (result == CU_INVALID_VALUE)
        return 0; /* the driver does not know this address */
    rc = sp_cuda_rc(dev, "cuPointerGetAttribute", result);
    return rc ? rc : ordinal == dev->info.ordinal;
}
