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
    /* If the current context was destroyed, this thread counts as one without a current context. It
     * may have been another library's context or ours. */
    if (is_gone(result))
        now = NULL;
    else if (result != CU_OK)
        return sp_cu_rc("cuCtxGetCurrent", result);
    if (now != dev->context || result != CU_OK) {
        result = sp_cuCtxSetCurrent(dev->context);
        /* our context was valid when the device was opened, so another library has reset it
         * since */
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
    /* forget the address of this context, because the driver may reuse the address for a later
     * context */
    if (sp_cuda_current == dev->context)
        sp_cuda_current = NULL;
    if (sp_cuDevicePrimaryCtxGetState(dev->handle, &flags, &active) == CU_OK && active)
        return; /* other users retain the context, so it may stay current */
    if (!sp_cuda_theirs && (sp_cuCtxGetCurrent(&now) != CU_OK || now == dev->context))
        sp_cuCtxSetCurrent(NULL);
}
