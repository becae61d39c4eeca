/* Whether spinning is polite right now.
 *
 * Two things speak against it: more runnable threads (/proc/loadavg) than the machine has cores, and a spin that lost its core
 * to somebody meanwhile. The latter is the quicker sign: another runtime that spins (OpenMP's threads do so for up to 200 ms
 * behind each of its regions) shows at once, and then whoever we wait for may be queued behind ourselves. Neither is believed
 * without a second look, since without spinning a job costs a wake-up for 20 ms: a kernel's thread may run for a moment just
 * when we count, and a hypervisor takes a core away for longer than any interrupt, without anybody waiting for it. */
#define _GNU_SOURCE
#include "timeline.h"

#include "include/sp_base.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* LOST_NS: no interrupt takes so long, and no time slice of Linux' schedulers is so short. UNTOLD_NS: a wait that is over by
 * then has not asked the kernel anything. */
enum { SPIN_NS = 100000, SAMPLE_EVERY_NS = 20000000, AGAIN_NS = 1000000, LOST_NS = 50000, UNTOLD_NS = 3000 };

static _Atomic int cached_cores;
static _Atomic uint64_t sample_at;
static _Atomic uint64_t budget;
static _Atomic uint32_t crowded; /* the last sample saw too many */

int sp_cores(void)
{
    int n = atomic_load_explicit(&cached_cores, memory_order_relaxed);
    if (n == 0) {
        cpu_set_t set;
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        atomic_store_explicit(&cached_cores, n, memory_order_relaxed);
    }
    return n;
}

void sp_cores_limit(uint32_t cores)
{
    atomic_store_explicit(&cached_cores, (int)(cores & INT32_MAX), memory_order_relaxed);
}

/* Fourth field of /proc/loadavg: "runnable/total", proc(5). 0 when it cannot be read. */
static int runnable(void)
{
    char text[128];
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return 0;
    text[got] = 0;
    char *p = text;
    for (int field = 0; field < 3 && p; field++) {
        p = strchr(p, ' ');
        p = p ? p + 1 : NULL;
    }
    return p ? atoi(p) : 0;
}

/* What /proc/loadavg counts is the whole machine's. Too many of them twice in a row: no more spinning. */
static void sample(uint64_t now)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int cores = online > sp_cores() ? (int)online : sp_cores();
    const uint32_t crowd = runnable() > cores;
    const uint32_t before = atomic_exchange_explicit(&crowded, crowd, memory_order_relaxed);
    if (crowd && !before) {
        atomic_store_explicit(&sample_at, now + AGAIN_NS, memory_order_relaxed);
        return;
    }
    atomic_store_explicit(&budget, crowd ? 0 : SPIN_NS, memory_order_relaxed);
}

uint64_t sp_spin_ns(void)
{
    const uint64_t now = sp_clock_ns();
    uint64_t due = atomic_load_explicit(&sample_at, memory_order_relaxed);
    if (now >= due && atomic_compare_exchange_strong_explicit(&sample_at, &due, now + SAMPLE_EVERY_NS, memory_order_relaxed,
                                                              memory_order_relaxed))
        sample(now);
    return atomic_load_explicit(&budget, memory_order_relaxed);
}

/* How often this thread had to give its core to another one. */
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
    const uint64_t now = sp_clock_ns();
    const uint64_t gap = now - spin->seen;
    spin->seen = now;
    if (gap < LOST_NS || !spin->asked || displaced() == spin->displaced) { /* else it was a hypervisor, or a long interrupt */
        if (!spin->asked && now - spin->begun > UNTOLD_NS) {
            spin->asked = 1;
            spin->displaced = displaced();
        }
        return now < spin->until;
    }
    atomic_store_explicit(&budget, 0, memory_order_relaxed); /* until the next sample */
    atomic_store_explicit(&sample_at, now + SAMPLE_EVERY_NS, memory_order_relaxed);
    return 0;
}

int sp_core_now(void)
{
    return sched_getcpu();
}

uint64_t sp_spin_for_ns(int other)
{
    return other >= 0 && other == sched_getcpu() ? 0 : sp_spin_ns();
}
