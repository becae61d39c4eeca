/* Decides whether a waiting thread should spin.
 *
 * Two signs speak against spinning: more runnable threads (/proc/loadavg) than cores, and a spin
 * that lost its core to another thread. The second sign appears earlier, and shows at once that
 * another runtime spins: OpenMP's threads spin for up to 200 ms after each region. Such threads may
 * keep the awaited thread in a run queue, and our spin would keep it there longer.
 *
 * Each sign needs two observations. A decision against spinning holds for 20 ms, and a wrong one
 * costs each job of that time a wake-up. Two samples in a row must show more runnable threads than
 * cores, because one sample may just see a thread of the Linux kernel. A long gap in a spin counts
 * only with an involuntary context switch: a hypervisor may take a core although no other thread
 * waits for it. */
#define _GNU_SOURCE
#include "spin.h"

#include "include/sp_base.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* LOST_NS: after a pause this long between two checks of a spin loop, the thread may have lost
 * its core. The pause is longer than any interrupt and shorter than any time slice of Linux'
 * schedulers. UNTOLD_NS: only a wait longer than this asks the Linux kernel, by a system call,
 * how often this thread has lost its core. */
enum { SPIN_NS = 100000, SAMPLE_EVERY_NS = 20000000, AGAIN_NS = 1000000, LOST_NS = 50000, UNTOLD_NS = 3000 };

static _Atomic int cached_cores;
static _Atomic uint64_t sample_at;
static _Atomic uint64_t budget;
/* 1 if the last reading of /proc/loadavg showed more runnable threads than CPUs */
static _Atomic int crowded;

int sp_cores(void)
{
    int n = cached_cores;
    if (n == 0) {
        cpu_set_t set;
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        cached_cores = n;
    }
    return n;
}

void sp_cores_limit(uint32_t cores)
{
    cached_cores = (int)(cores & INT32_MAX);
}

/* Returns the number of runnable threads, from the fourth field of /proc/loadavg, "runnable/total"
 * (proc(5)). 0: the file cannot be read. */
static int runnable(void)
{
    int seen = 0;
    FILE *const file = fopen("/proc/loadavg", "re");
    if (file && fscanf(file, "%*s %*s %*s %d", &seen) != 1)
        seen = 0;
    if (file)
        fclose(file);
    return seen;
}

/* Updates the decision whether to spin. /proc/loadavg counts the threads of the whole machine. A
 * sample is crowded if more threads are runnable than the machine has CPUs. After two crowded
 * samples in a row, waits do not spin. */
static void sample(uint64_t now)
{
    const int crowd = runnable() > (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (crowd && !atomic_exchange(&crowded, 1)) {
        sample_at = now + AGAIN_NS;
        return;
    }
    crowded = crowd;
    budget = crowd ? 0 : SPIN_NS;
}

uint64_t sp_spin_ns(void)
{
    const uint64_t now = sp_clock_ns();
    uint64_t due = sample_at;
    if (now >= due && atomic_compare_exchange_strong(&sample_at, &due, now + SAMPLE_EVERY_NS))
        sample(now);
    return budget;
}

/* Returns how often this thread had to give its core to another thread. */
static uint64_t displaced(void)
{
    struct rusage used;
    return getrusage(RUSAGE_THREAD, &used) ? 0 : (uint64_t)used.ru_nivcsw;
}

struct sp_spin sp_spin_begin(uint64_t spin_ns)
{
    const uint64_t now = spin_ns ? sp_clock_ns() : 0;
    return (struct sp_spin){.begun = now, .seen = now, .until = now + spin_ns};
}

int sp_spin_on(struct sp_spin *spin)
{
    const uint64_t now = sp_clock_ns(), gap = now - spin->seen;
    spin->seen = now;
    if (!spin->asked && now - spin->begun > UNTOLD_NS) {
        spin->asked = 1;
        spin->displaced = displaced();
    } else if (spin->asked && gap >= LOST_NS && displaced() != spin->displaced) {
        /* Another thread took the core of this thread; a hypervisor or a long interrupt would
         * not change the count. So no thread of this process spins until the next sample. */
        budget = 0;
        sample_at = now + SAMPLE_EVERY_NS;
        return 0;
    }
    return now < spin->until;
}

int sp_core_now(void)
{
    return sched_getcpu();
}

uint64_t sp_spin_for_ns(int other)
{
    return other >= 0 && other == sched_getcpu() ? 0 : sp_spin_ns();
}
