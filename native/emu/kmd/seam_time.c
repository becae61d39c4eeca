/* Measures the time that a driver's calls spend inside the emulated kernel driver, because that
 * time is not the driver's own. A thread may be in two such calls at once: the preload library's
 * hook for ioctl checks the descriptor, then calls the machine's ioctl. Only the outermost call is
 * measured. */
#include "seam_time.h"
#include "emu/kmd/state/state.h"

static uint64_t ioctls, submissions, inside_ns;
/* With this TLS model an access does not call __tls_get_addr: that function is in the dynamic
 * loader, with which the library is not linked. */
static __thread __attribute__((tls_model("initial-exec"))) int depth;

uint64_t sp_seam_enter(void)
{
    return depth++ ? 0 : kmd_now();
}

void sp_seam_leave(uint64_t began, uint32_t request, int ours)
{
    if (--depth || !ours)
        return;
    __atomic_fetch_add(&ioctls, 1, __ATOMIC_RELAXED);
    if (request == DRM_IOCTL_AMDGPU_CS)
        __atomic_fetch_add(&submissions, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&inside_ns, kmd_now() - began, __ATOMIC_RELAXED);
}

void sp_emu_seam(struct sp_emu_seam *out)
{
    out->ioctls = __atomic_load_n(&ioctls, __ATOMIC_RELAXED);
    out->submissions = __atomic_load_n(&submissions, __ATOMIC_RELAXED);
    out->ns = __atomic_load_n(&inside_ns, __ATOMIC_RELAXED);
}
