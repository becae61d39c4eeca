/* Internal part of sp_base.h: the counts of live objects, which native code keeps up to date. */
#ifndef SP_CORE_BASE_H
#define SP_CORE_BASE_H
#include "include/sp_base.h"

#include <stdatomic.h>

struct sp_live_atomic {
    _Atomic int64_t devices;
    _Atomic int64_t queues;
    _Atomic int64_t kernels;
    _Atomic int64_t allocations;
    _Atomic int64_t allocated_nbytes;
};
struct sp_live_atomic *sp_live(void);

/* Returns the time of sp_clock_ns, up to one timer tick of Linux (10 ms) late. A call takes a few
 * ns. */
uint64_t sp_clock_coarse_ns(void);

/* The epoch of records that name no object (a kernel or memory) that could be closed meanwhile.
 * Such records never become stale (include/sp_queue.h). */
#define SP_ANY_EPOCH UINT64_MAX
#endif
