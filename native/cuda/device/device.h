/* The struct of the cuda device, private to native/cuda.
 *
 * Lock order: a queue's lock, then the device's lock, then why_lock. A thread gives work to the
 * driver under the queue's lock, so that timeline values follow the order of the stream. */
#ifndef SP_CUDA_DEVICE_H
#define SP_CUDA_DEVICE_H
#include "core/base.h"
#include "core/device.h"
#include "include/sp_cuda.h"

#include <pthread.h>
#include <stdatomic.h>

/* number of size classes (powers of two) of pooled page-locked memory */
enum { SP_CUDA_CLASSES = 64 };

/* A free block of page-locked memory. The list of free blocks is stored in the blocks
 * themselves. */
struct sp_cuda_pinned {
    struct sp_cuda_pinned *next;
};

struct sp_cuda {
    struct sp_device common;
    struct sp_cuda_info info;
    int handle; /* CUdevice */
    void *context;
    _Atomic uint32_t refs; /* references: the owner, queues, kernels, memory */
    /* 1 after a reset of the context. The reset has destroyed all objects of the context, so their
     * handles must not be passed to the driver any more. */
    _Atomic int reset;
    struct sp_cuda *next; /* next device in the list of open devices */
    _Atomic uint32_t graph_nodes;
    _Atomic uint64_t replayed, graph_builds, graph_launches, graph_updates;
    /* number of downloads, in all queues of the device, of which some pieces are not submitted to
     * the driver yet */
    _Atomic uint32_t open_downloads;
    /* counter, incremented when the zeroing of new memory is submitted; each queue's stream then
     * waits for memory_event before later work */
    _Atomic uint64_t memory_turn;

    pthread_mutex_t why_lock; /* innermost lock: a thread that holds it takes no other lock */
    char why_lost[400];

    /* held while the driver compiles; a thread that holds it may take only why_lock */
    pthread_mutex_t modules_lock;
    struct sp_cuda_module *modules;

    pthread_mutex_t lock; /* guards the members below */
    void *memory_stream, *memory_event;
    void *pool; /* the driver's stream-ordered pool; NULL if the driver has none */
    struct sp_cuda_pinned *pinned[SP_CUDA_CLASSES];
    uint64_t pinned_nbytes; /* total bytes of the blocks in `pinned` */
    struct sp_cuda_memory *hosts;
    /* bit i is 1 if this device can access the memory of the device with ordinal i, for i < 32 */
    uint32_t peers;
    void *anchor;   /* an event that ended at the CLOCK_MONOTONIC time anchor_ns */
    uint64_t anchor_ns;
};

static inline int sp_cuda_usable(const struct sp_cuda *dev)
{
    return sp_device_usable(&dev->common);
}
#endif
