/* GL fences: finds out whether issued work has ended. */
#include "fence.h"
#include "core/base.h"
#include "dl/gl.h"
#include "messages.h"
#include "names.h"

static const uint64_t POLL_NS = 100000;
static const uint64_t RESET_CHECK_NS = 20000000;

int sp_egl_passed(struct sp_egl *dev, void *sync, uint64_t timeout_ns)
{
    if (!sync || atomic_load_explicit(&dev->common.lost, memory_order_relaxed))
        return 1;
    uint32_t state = sp_glClientWaitSync(sync, GL_SYNC_FLUSH_COMMANDS_BIT, timeout_ns);
    if (state == GL_ALREADY_SIGNALED || state == GL_CONDITION_SATISFIED)
        return 1;
    uint64_t now = sp_clock_ns();
    if (state == GL_WAIT_FAILED || now - dev->reset_checked_ns > RESET_CHECK_NS) {
        dev->reset_checked_ns = now;
        if (sp_egl_context_lost(dev))
            return 1;
    }
    if (state != GL_WAIT_FAILED)
        return 0;
    sp_glFinish(); /* glFinish waits for all work instead, because waits for this fence fail */
    return 1;
}

void sp_egl_drain(struct sp_egl *dev)
{
    void *sync = sp_glFenceSync(GL_SYNC_GPU_COMMANDS_COMPLETE, 0);
    while (!sp_egl_passed(dev, sync, POLL_NS))
        ;
    if (sync)
        sp_glDeleteSync(sync);
}
