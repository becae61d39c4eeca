/* Makes the device's context current in the calling thread. */
#include "context.h"
#include "lost.h"

static int is_gone(int result)
{
    return result == CU_INVALID_CONTEXT || result == CU_CONTEXT_IS_DESTROYED;
}

int sp_cuda_enter(struct sp_cuda *dev)
{
    void *now = NULL;
    if (atomic_load(&dev->reset))
        return sp_cuda_gone(dev);
    int result = sp_cuCtxGetCurrent(&now);
    /* the context that was current, another library's or ours, was destroyed */
    if (is_gone(result))
        now = NULL;
    else if (result != CU_OK)
        return sp_cu_rc("cuCtxGetCurrent", result);
    if (now != dev->context || result != CU_OK) {
        result = sp_cuCtxSetCurrent(dev->context);
        /* the context was valid when the device was opened, so it was reset since */
        if (is_gone(result)) {
            sp_cuda_reset_by_others(dev);
            return sp_cuda_gone(dev);
        }
        if (result != CU_OK)
            return sp_cu_rc("cuCtxSetCurrent", result);
        if (now)
            sp_cuda_theirs = now;
    }
    sp_cuda_current = dev->context;
    sp_cuda_relax();
    return 0;
}

void sp_cuda_released(const struct sp_cuda *dev)
{
    void *now = NULL;
    unsigned flags;
    int active = 0;
    /* forget this address, because the driver may give it to a later context */
    if (sp_cuda_current == dev->context)
        sp_cuda_current = NULL;
    if (sp_cuDevicePrimaryCtxGetState(dev->handle, &flags, &active) == CU_OK && active)
        return; /* other users still retain the context, and may want it current */
    if (!sp_cuda_theirs && (sp_cuCtxGetCurrent(&now) != CU_OK || now == dev->context))
        sp_cuCtxSetCurrent(NULL);
}
