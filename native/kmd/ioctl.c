/* The retry loop above the seam. It repeats an ioctl at once after EINTR. EAGAIN means that the
 * kernel driver wants a later call, so each further retry sleeps a little longer, up to 1 ms. */
#include "include/sp_kmd.h"

#include <errno.h>
#include <time.h>

enum { FIRST_SLEEP_NS = 1000, LONGEST_SLEEP_NS = 1000 * 1000 };

int sp_kmd_ioctl(const struct sp_kmd_ops *ops, int fd, uint32_t request, void *arg, uint64_t deadline_ns)
{
    long sleep_ns = FIRST_SLEEP_NS;
    for (;;) {
        int rc = ops->ioctl(ops->self, fd, request, arg);
        if (rc != -EINTR && rc != -EAGAIN)
            return rc;
        if (deadline_ns != 0 && sp_clock_ns() >= deadline_ns)
            return rc;
        if (rc == -EAGAIN) {
            struct timespec pause = {0, sleep_ns};
            nanosleep(&pause, NULL);
            sleep_ns = sleep_ns * 2 < LONGEST_SLEEP_NS ? sleep_ns * 2 : LONGEST_SLEEP_NS;
        }
    }
}
