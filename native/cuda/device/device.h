/* The cuda device's struct, private to native/cuda.
 *
 * Lock order: a queue's, the device's, why_lock. Work goes to the driver under the queue's lock, so
 * that timeline values follow the order of the stream. */
#ifndef SP_CUDA_DEVICE_H
#define SP_CUDA_DEVICE_H
#include "core/base.h"
#include "core/device.h"
#include "include/sp_cuda.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SP_CUDA_CLASSES = 64 }; /* size classes of pooled page-locked memory: powers of two */

/* A free block of page-locked memory; the list is stored in the blocks themselves. */
struct sp_cuda_pinned {
    struct sp_cuda_pinned *next;
};

struct sp_cuda {
    struct sp_device common;
    struct sp_cuda_info info;
    int handle; /* CUdevice */
    void *context;
    _Atomic uint32_t refs; /* owner, queues, kernels, memory */
    _Atomic int reset; /* its context was reset: no handle of it may be passed to the driver */
    struct sp_cuda *next; /* in the list of open devices */
    _Atomic uint32_t graph_nodes;
    _Atomic uint64_t replayed, graph_builds, graph_launches, graph_updates;
    _Atomic uint32_t open_downloads; /* over all its queues */
    _Atomic uint64_t memory_turn; /* advances when memory is zeroed: queues then wait for memory_event */

    pthread_mutex_t why_lock; /* the innermost lock */
    char why_lost[400];

    pthread_mutex_t modules_lock; /* held while the driver compiles; only why_lock is taken under it */
    struct sp_cuda_module *modules;

    pthread_mutex_t lock; /* guards the members below */
    void *memory_stream, *memory_event;
    void *pool; /* the driver's stream-ordered pool; NULL: it has none */
    struct sp_cuda_pinned *pinned[SP_CUDA_CLASSES];
    uint64_t pinned_nbytes; /* bytes in those lists */
    struct sp_cuda_memory *hosts;
    uint32_t peers; /* bit i: this device can access the memory of ordinal i; below 32 */
    void *anchor;   /* an event that ended at anchor_ns of CLOCK_MONOTONIC */
    uint64_t anchor_ns;
};

static inline int sp_cuda_usable(const struct sp_cuda *dev)
{
    return sp_device_usable(&dev->common);
}
#endif
