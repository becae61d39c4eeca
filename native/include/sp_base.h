/* Facts shared by every backend: the clock, the fork guard, live counts.
 *
 * Headers in this folder are the one set of declarations. The compiler includes them; build_ffi.py
 * gives the same text to cffi without the lines that start with '#'. Therefore: no #if, no macros
 * in declarations, enums for constants, includes only inside the guard block. Functions return 0 or
 * -errno unless they say otherwise. */
#ifndef SP_BASE_H
#define SP_BASE_H
#include <stddef.h>
#include <stdint.h>

/* Live objects in native code; the conformance suite compares the counts before and after. */
struct sp_live {
    int64_t devices;
    int64_t queues;
    int64_t kernels;
    int64_t allocations;
    int64_t allocated_nbytes;
};
void sp_live_counts(struct sp_live *out);

/* CLOCK_MONOTONIC in ns, the clock of time.monotonic_ns(). */
uint64_t sp_clock_ns(void);

/* Limits the cores that this process may use below its affinity mask (a cgroup's quota). If more
 * threads are runnable, waiting threads sleep instead of spinning. 0: use the mask. */
void sp_cores_limit(uint32_t cores);

/* 0 in the process that loaded the library, +1 in each generation of forked children. An object
 * with another generation belongs to a parent process: its threads do not exist here. */
uint32_t sp_fork_generation(void);
#endif
