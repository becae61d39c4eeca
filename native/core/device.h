/* First member of every backend's device, so that a pointer to a device is a pointer to this
 * struct. Queues check this struct in each launch (queue.h). */
#ifndef SP_CORE_DEVICE_H
#define SP_CORE_DEVICE_H
#include "include/sp_base.h"

#include <stdatomic.h>

struct sp_device {
    _Atomic uint64_t epoch; /* sp_queue.h */
    _Atomic int lost;       /* 1 once the device is lost; then all work is refused */
    uint32_t fork_generation;
};

/* Returns 1 if this process opened the device, 0 if a parent process did. */
static inline int sp_device_usable(const struct sp_device *device)
{
    return device->fork_generation == sp_fork_generation();
}
#endif
