/* What every backend's device begins with, so that a pointer to the one is a pointer to the other. Its queues look at it in
 * each launch (queue.h). */
#ifndef SP_CORE_DEVICE_H
#define SP_CORE_DEVICE_H
#include "include/sp_base.h"

#include <stdatomic.h>

struct sp_device {
    _Atomic uint64_t epoch; /* sp_queue.h */
    _Atomic int lost;       /* nothing works on it any more */
    uint32_t fork_generation;
};

/* Does it belong to this process, and not to one that this was forked from? */
static inline int sp_device_usable(const struct sp_device *device)
{
    return device->fork_generation == sp_fork_generation();
}
#endif
