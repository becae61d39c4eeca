/* Moves a worker thread off the core of the thread that has work for it.
 *
 * Linux looks for an idle core only while it believes that few of the cores that share a cache are
 * busy (SIS_UTIL in kernel/sched/fair.c). Otherwise it may queue a worker on the very core whose
 * thread has work for it. An affinity mask without that core, set for a moment, makes the kernel
 * choose another core. This was measured by benchmarks/cpu_peers.py on two cores, Linux 6.18, in a
 * process that alternated with others. Products of 256 cubed on two threads took 150 to 165 us with
 * this mask. Without it they took 297 to 310 us, as on one thread.
 *
 * Affinity masks also belong to the user: taskset(1) or sched_setaffinity(2) may set another mask
 * at any time. So the old mask is restored only while the thread still has the mask set here. Linux
 * has no call that compares and sets in one step. So a user's mask is lost if it is set between the
 * read and the write here, or equals the temporary mask. */
#define _GNU_SOURCE
#include "affinity.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t sp_thread_id(void)
{
    return (pid_t)syscall(SYS_gettid); /* glibc has gettid(2) since 2.30 only */
}

void sp_move_off_core(pid_t tid, int cpu)
{
    cpu_set_t allowed, others, now;
    if (tid == 0 || cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(tid, sizeof allowed, &allowed))
        return;
    others = allowed;
    CPU_CLR((size_t)cpu, &others);
    if (!CPU_COUNT(&others) || CPU_EQUAL(&others, &allowed) || sched_setaffinity(tid, sizeof others, &others))
        return;
    if (sched_getaffinity(tid, sizeof now, &now) == 0 && CPU_EQUAL(&now, &others))
        /* restores the thread's old mask; the thread stays on its new core */
        sched_setaffinity(tid, sizeof allowed, &allowed);
}
