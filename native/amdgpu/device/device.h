/* The struct of the AMD device, private to native/amdgpu. Lock order: the lock of a queue comes
 * before the lock of the device. */
#ifndef SP_AMDGPU_DEVICE_H
#define SP_AMDGPU_DEVICE_H
#include "core/device.h"
#include "include/sp_amdgpu.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SP_PAGE = 4096, SP_FAULT_TEXTS = 32, SP_FAULT_TEXT = 256, SP_POOLED = 32 };

struct sp_bo;

struct sp_fault_text {
    const void *q;
    uint64_t value;
    char text[SP_FAULT_TEXT];
};

/* Counters of one queue. Only a thread that holds the queue's lock writes the counters, so a write
 * needs no atomic read-modify-write. Any thread may read the counters. */
struct sp_counted {
    _Atomic uint64_t submissions, jobs, dma_jobs, ioctls, ib_ndw, dispatches;
    struct sp_counted *next;
};
static inline void sp_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

enum { SP_PIECES = 16 };
/* One straight piece of the conversion from the GPU's clock to CLOCK_MONOTONIC (anchor.c). A piece
 * is valid from `ticks` until the next piece begins. */
struct sp_piece {
    uint64_t ticks;
    int64_t ns;
    double ns_per_tick;
};

struct sp_anchors {
    _Atomic uint64_t due_ns;
    /* guards the members below; a thread takes this lock after any other lock */
    pthread_mutex_t lock;
    uint64_t ticks; /* the newest reading of both clocks (anchor): ticks of the GPU's clock */
    int64_t ns;     /* the newest reading of both clocks (anchor): CLOCK_MONOTONIC in ns */
    uint64_t told;  /* largest tick value that was converted for a caller */
    struct sp_piece piece[SP_PIECES];
    /* number of pieces added so far to `piece`, which keeps the newest SP_PIECES of them */
    uint32_t n;
};

struct sp_amdgpu {
    struct sp_device common;
    const struct sp_kmd_ops *ops;
    int fd;
    uint32_t always_valid; /* 1 if the kernel driver accepts AMDGPU_GEM_CREATE_VM_ALWAYS_VALID */
    /* count of VRAM losses that the kernel driver reported when the device was opened */
    uint32_t vram_lost;
    struct sp_amdgpu_setup setup;
    _Atomic uint32_t refs;  /* references to this struct: its owner, queues, kernels, memory */
    _Atomic uint32_t users; /* users of the descriptor `fd`: the owner, open queues, memory */
    /* number of entries of `memories` that some submissions must name in their BO lists */
    _Atomic size_t nlisted;
    /* number that advances when memory that submissions must name in their BO lists is added or
     * removed; starts at 1 */
    _Atomic uint64_t list_turn;
    /* number that advances when a GPU kernel is unloaded, or when jobs of a GPU kernel must
     * become shorter */
    _Atomic uint64_t kernel_turn;
    /* number that advances after each write that bypasses the GPU's caches; starts at 1
     * (submit/job.c) */
    _Atomic uint64_t written;
    /* number that advances when the code of a GPU kernel is written to memory; starts at 1 */
    _Atomic uint64_t code_turn;
    /* number of memory objects, and of views of them, that other writers may change at any time */
    _Atomic uint64_t exposed;
    /* `ioctls` counts all ioctls except CS; `displaced` counts BOs that missed their preferred
     * heap */
    _Atomic uint64_t ioctls, displaced;
    _Atomic int no_dma; /* the copy engine ran no job after a reset, so it is no longer used */
    _Atomic int suspect; /* a ring was dead after a reset, so each new queue sends a canary */
    _Atomic uint64_t code_nbytes[2];    /* bytes of code in GTT [0] and in VRAM [1] */
    _Atomic uint64_t staged_nbytes, direct_nbytes;
    struct sp_anchors anchors;

    pthread_mutex_t lock; /* guards the members below */
    struct sp_counted *counted;     /* counters of the open queues */
    struct sp_amdgpu_counts before; /* sum of the counters of all closed queues */
    struct sp_va *va;
    struct sp_bo *bos;
    struct sp_amdgpu_memory **memories; /* sorted by GPU address (`base`) */
    size_t nmemories, most_memories;
    struct sp_amdgpu_memory *pool[SP_POOLED];
    uint32_t npool;
    int closing;
    char why_lost[SP_FAULT_TEXT];
    struct sp_fault_text faults[SP_FAULT_TEXTS];
    uint32_t next_fault;
};

/* Counts a write that bypassed the GPU's caches, so that later jobs invalidate L2. Call this after
 * the write. */
static inline void sp_amdgpu_wrote(struct sp_amdgpu *dev)
{
    atomic_fetch_add(&dev->written, 1);
}
int sp_amdgpu_ioctl(struct sp_amdgpu *dev, uint32_t request, void *arg);
/* Handles an ioctl that failed with `rc`: repeats an interrupted ioctl, marks a removed card as
 * lost. Returns the final result of the ioctl. */
int sp_amdgpu_failed(struct sp_amdgpu *dev, uint32_t request, void *arg, int rc);
void sp_counted_begin(struct sp_amdgpu *dev, struct sp_counted *c);
void sp_counted_end(struct sp_amdgpu *dev, struct sp_counted *c);
void sp_amdgpu_ref(struct sp_amdgpu *dev);
void sp_amdgpu_unref(struct sp_amdgpu *dev);
void sp_amdgpu_use(struct sp_amdgpu *dev);
void sp_amdgpu_unuse(struct sp_amdgpu *dev);
void sp_amdgpu_lose(struct sp_amdgpu *dev, const char *why);
/* Checks that VRAM still holds its contents. Returns 0 if so. Returns -ENODEV, and marks the device
 * as lost, if a reset has erased VRAM since the device was opened. Returns another -errno if the
 * kernel driver cannot answer. (A context of the kernel driver reports only the resets since the
 * context was created.) */
int sp_amdgpu_intact(struct sp_amdgpu *dev);
/* Stores in `out` how often the kernel driver has evicted memory from this card for lack of room.
 * The count includes memory of all processes. */
int sp_amdgpu_evictions(struct sp_amdgpu *dev, uint64_t *out);
/* Records the text of this thread's failure, which sp_amdgpu_error_text returns. */
__attribute__((format(printf, 1, 2))) void sp_amdgpu_say(const char *format, ...);
#endif
