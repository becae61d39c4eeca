/* What all backends share: the clock, the limit of cores, live counts, the fork generation.
 *
 * The headers in this folder are the only declarations. The compiler includes them, and
 * build_ffi.py gives cffi the same text without the lines that start with '#'. Therefore they have
 * no #if, no macros in declarations, enums for constants, and includes only inside the guard block.
 * Functions return 0 or -errno unless they say otherwise. */
#ifndef SP_BASE_H
#define SP_BASE_H
#include <stddef.h>
#include <stdint.h>

/* Numbers of live objects in native code. The conformance suite compares them before and after each
 * test. */
struct sp_live {
    int64_t devices;
    int64_t queues;
    int64_t kernels;
    int64_t allocations;
    int64_t allocated_nbytes;
};
void sp_live_counts(struct sp_live *out);

/* Returns CLOCK_MONOTONIC in ns, the clock of time.monotonic_ns(). */
uint64_t sp_clock_ns(void);

/* Sets how many cores this process may use, such as a cgroup's quota, if that is less than its
 * affinity mask has. 0: no limit but the affinity mask. If more threads than cores are runnable,
 * waiting threads sleep instead of spinning. */
void sp_cores_limit(uint32_t cores);

/* Returns 0 in the process that loaded the library, and 1 more in each generation of forked
 * children. An object with another generation belongs to a parent process, so its threads do not
 * exist here. */
uint32_t sp_fork_generation(void);
#endif
