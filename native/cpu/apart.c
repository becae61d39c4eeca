/* Takes a worker off the core of the thread that has work for it.
 *
 * Measured on two cores, Linux 6.18: of a process that takes turns with others, products of 256 cubed on two threads took 297 to
 * 310 us, as on one, in three runs of four, and 150 to 165 with this (benchmarks/cpu_peers.py, runs in turn). By its source
 * (SIS_UTIL in kernel/sched/fair.c) Linux looks for an idle core only while it takes few of a cache for busy; then who wakes up
 * may stand in line behind the very thread that has work for it, which does that work itself meanwhile, and asks again. A mask
 * without that core, for a moment, has the kernel choose among the others. */
#define _GNU_SOURCE
#include "apart.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t sp_apart_self(void)
{
    return (pid_t)syscall(SYS_gettid); /* glibc has gettid(2) since 2.30 only */
}

void sp_apart(pid_t tid, int cpu)
{
    cpu_set_t allowed, others;
    if (tid == 0 || cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(tid, sizeof allowed, &allowed))
        return;
    others = allowed;
    CPU_CLR((size_t)cpu, &others);
    if (CPU_COUNT(&others) && !CPU_EQUAL(&others, &allowed) && sched_setaffinity(tid, sizeof others, &others) == 0)
        sched_setaffinity(tid, sizeof allowed, &allowed); /* where it is now, it may stay */
}
