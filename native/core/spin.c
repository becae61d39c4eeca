/* Whether spinning is polite right now: the count of runnable threads in /proc/loadavg against the cores we may use. */
#define _GNU_SOURCE
#include "timeline.h"

#include "../include/sp_base.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPIN_NS = 100000, SAMPLE_EVERY_NS = 20000000 };

static int cores(void)
{
    static _Atomic int cached;
    int n = atomic_load_explicit(&cached, memory_order_relaxed);
    if (n == 0) {
        cpu_set_t set;
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        atomic_store_explicit(&cached, n, memory_order_relaxed);
    }
    return n;
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

uint64_t sp_spin_ns(void)
{
    static _Atomic uint64_t sampled_at;
    static _Atomic uint64_t budget;
    uint64_t now = sp_clock_ns();
    uint64_t last = atomic_load_explicit(&sampled_at, memory_order_relaxed);
    if (now - last >= SAMPLE_EVERY_NS &&
        atomic_compare_exchange_strong_explicit(&sampled_at, &last, now, memory_order_relaxed, memory_order_relaxed))
        atomic_store_explicit(&budget, runnable() > cores() ? 0 : SPIN_NS, memory_order_relaxed);
    return atomic_load_explicit(&budget, memory_order_relaxed);
}

int sp_core_now(void)
{
    return sched_getcpu();
}

uint64_t sp_spin_for_ns(int other)
{
    return other >= 0 && other == sched_getcpu() ? 0 : sp_spin_ns();
}
