/* Progress of the running submission. The thread that runs the submission writes these fields. Any
 * thread that describes the submission reads them. */
#ifndef SP_CORE_PROGRESS_H
#define SP_CORE_PROGRESS_H
#include "include/sp_cmd.h"

#include <stdatomic.h>

struct sp_running {
    /* offset of the running record in the submission; the size of the submission while no record
     * runs */
    _Atomic uint64_t at;
    _Atomic uint64_t groups_done;
    _Atomic uint64_t groups_total;
    _Atomic uint64_t started_ns;
};

static inline void sp_running_groups(struct sp_running *r, uint64_t total)
{
    atomic_store_explicit(&r->groups_done, 0, memory_order_relaxed);
    atomic_store_explicit(&r->groups_total, total, memory_order_relaxed);
}

static inline void sp_running_begin(struct sp_running *r, uint64_t at, uint64_t now_ns)
{
    atomic_store_explicit(&r->at, at, memory_order_relaxed);
    atomic_store_explicit(&r->started_ns, now_ns, memory_order_relaxed);
    sp_running_groups(r, 0);
}

static inline void sp_running_tell(struct sp_running *r, struct sp_progress *out)
{
    out->running_at = atomic_load(&r->at);
    out->groups_done = atomic_load(&r->groups_done);
    out->groups_total = atomic_load(&r->groups_total);
    out->running_ns = sp_clock_ns() - atomic_load(&r->started_ns);
}
#endif
