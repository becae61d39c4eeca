/* Implements timelines on futexes. */
#include "timeline.h"

#include "include/sp_base.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void sp_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &t, NULL, 0);
}

void sp_futex_wake(_Atomic uint32_t *word, int waiters)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, waiters, NULL, NULL, 0);
}

void sp_timeline_signal(struct sp_timeline *t, uint64_t value)
{
    /* All these stores and loads are sequentially consistent. A waiter first enters itself in
     * `waiters`, then reads `reached` again. So either that read sees the new value, or the
     * signaller sees the waiter. */
    atomic_store(&t->reached, value);
    if (atomic_load(&t->waiters)) {
        atomic_fetch_add(&t->sequence, 1);
        sp_futex_wake(&t->sequence, INT32_MAX);
    }
}

static int spin(struct sp_timeline *t, uint64_t value, uint64_t spin_ns)
{
    struct sp_spin spin = sp_spin_begin(spin_ns);
    do {
        for (int i = 0; i < 64; i++) {
            if (sp_timeline_reached(t) >= value)
                return 1;
            sp_cpu_relax();
        }
    } while (sp_spin_on(&spin));
    return 0;
}

int sp_timeline_wait(struct sp_timeline *t, uint64_t value, uint64_t timeout_ns, uint64_t spin_ns)
{
    if (sp_timeline_reached(t) >= value)
        return 0;
    if (timeout_ns == 0)
        return -ETIMEDOUT;
    uint64_t start = sp_clock_ns();
    uint64_t deadline = timeout_ns > UINT64_MAX - start ? UINT64_MAX : start + timeout_ns;
    if (spin_ns > timeout_ns)
        spin_ns = timeout_ns;
    if (spin_ns && spin(t, value, spin_ns))
        return 0;
    int rc = -ETIMEDOUT;
    atomic_fetch_add(&t->waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&t->sequence);
        if (atomic_load(&t->reached) >= value) {
            rc = 0;
            break;
        }
        uint64_t now = sp_clock_ns();
        if (now >= deadline)
            break;
        sp_futex_wait(&t->sequence, seen, deadline - now);
    }
    atomic_fetch_sub(&t->waiters, 1);
    return rc;
}
