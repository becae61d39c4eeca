/* Base facts shared by every backend: the clock, the fork guard, live counts.
 *
 * Headers in this folder are the one set of declarations: the compiler includes them, and build_ffi.py hands the same
 * text to cffi with the lines that start with '#' dropped. Therefore: no #if, no macros in declarations, enums for
 * constants, includes only inside the guard block. Functions return 0 or -errno unless they say otherwise. */
#ifndef SP_BASE_H
#define SP_BASE_H
#include <stddef.h>
#include <stdint.h>

/* Objects alive in native code; the conformance suite compares them before and after. */
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

/* How many cores this process may use, should that be less than its affinity mask (a cgroup's quota): where more threads are
 * runnable, waiting threads sleep instead of spinning. 0: the mask. */
void sp_cores_limit(uint32_t cores);

/* 0 in the process that loaded the library, +1 in each generation of forked children. An object stamped with another
 * generation belongs to a parent process: its threads do not exist here. */
uint32_t sp_fork_generation(void);
#endif
