/* The cuda device's struct; nothing outside native/cuda sees inside it.
 *
 * Locks, in this order: a queue's, the device's, that of why it was lost. Work goes to the driver under the queue's lock, so that the values of a
 * queue follow the order of its stream. */
#ifndef SP_CUDA_DEVICE_H
#define SP_CUDA_DEVICE_H
#include "core/base.h"
#include "core/device.h"
#include "include/sp_cuda.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SP_CUDA_CLASSES = 64 }; /* sizes of pooled page-locked memory: powers of two */

/* Page-locked memory that nobody uses: its own first bytes are the list. */
struct sp_cuda_pinned {
    struct sp_cuda_pinned *next;
};

struct sp_cuda {
    struct sp_device common;
    struct sp_cuda_info info;
    int handle; /* CUdevice */
    void *context;
    _Atomic uint32_t refs; /* the owner, queues, kernels, memory */
    _Atomic int reset; /* its context was: nothing that belonged to it may be named to the driver any more */
    struct sp_cuda *next; /* in the list of those that are open */
    _Atomic uint32_t graph_nodes;
    _Atomic uint64_t replayed, graph_builds, graph_launches, graph_updates;
    _Atomic uint32_t open_downloads; /* of its queues */
    _Atomic uint64_t memory_turn; /* grows when memory is zeroed: queues wait for memory_event before they use it */

    pthread_mutex_t why_lock; /* the innermost */
    char why_lost[400];

    pthread_mutex_t modules_lock; /* only why_lock is taken under it; held while the driver compiles */
    struct sp_cuda_module *modules;

    pthread_mutex_t lock; /* guards what follows */
    void *memory_stream, *memory_event;
    void *pool; /* the driver's stream-ordered one; NULL: there is none */
    struct sp_cuda_pinned *pinned[SP_CUDA_CLASSES];
    uint64_t pinned_nbytes; /* in there */
    struct sp_cuda_memory *hosts;
    uint32_t peers; /* bit of each ordinal whose memory this device reaches by now; below 32 */
    void *anchor;   /* an event that has ended, at anchor_ns of CLOCK_MONOTONIC */
    uint64_t anchor_ns;
};

static inline int sp_cuda_usable(const struct sp_cuda *dev)
{
    return sp_device_usable(&dev->common);
}
#endif
