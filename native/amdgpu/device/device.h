/* The amdgpu device's struct, private to native/amdgpu. Lock order: a queue's, then the
 * device's. */
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

/* Counters of one queue. The queue's lock guards writes, so that no write needs an atomic
 * instruction. Any thread may read. */
struct sp_counted {
    _Atomic uint64_t submissions, jobs, dma_jobs, ioctls, ib_ndw, dispatches;
    struct sp_counted *next;
};
static inline void sp_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

enum { SP_PIECES = 16 };
/* Maps the GPU's clock to CLOCK_MONOTONIC (anchor.c): one piece of the line, valid from `ticks`
 * until the next piece begins. */
struct sp_piece {
    uint64_t ticks;
    int64_t ns;
    double ns_per_tick;
};

struct sp_anchors {
    _Atomic uint64_t due_ns;
    pthread_mutex_t lock; /* guards the members below; taken last */
    uint64_t ticks; /* newest anchor: the GPU's clock */
    int64_t ns;     /* newest anchor: CLOCK_MONOTONIC */
    uint64_t told;  /* newest ticks that were converted */
    struct sp_piece piece[SP_PIECES];
    uint32_t n; /* pieces so far; the newest SP_PIECES are kept */
};

struct sp_amdgpu {
    struct sp_device common;
    const struct sp_kmd_ops *ops;
    int fd;
    uint32_t always_valid; /* the kernel supports that flag */
    uint32_t vram_lost; /* losses of VRAM before the device was opened */
    struct sp_amdgpu_setup setup;
    _Atomic uint32_t refs;  /* of this struct: owner, queues, kernels, memory */
    _Atomic uint32_t users; /* of the descriptor: owner, open queues, memory */
    _Atomic size_t nlisted; /* entries of `memories` that some submission must list */
    _Atomic uint64_t list_turn; /* advances when such an entry is added or removed; from 1 */
    /* advances when a kernel is unloaded, or its jobs must become shorter */
    _Atomic uint64_t kernel_turn;
    _Atomic uint64_t written;   /* advances after a write behind the GPU's caches; from 1: submit/job.c */
    _Atomic uint64_t code_turn; /* advances when code is written; from 1 */
    /* memories, and views of them, that other writers may change at any time */
    _Atomic uint64_t exposed;
    _Atomic uint64_t ioctls, displaced; /* ioctls except CS */
    _Atomic int no_dma; /* the copy engine ran nothing after a reset, and is no longer used */
    _Atomic int suspect; /* a ring was dead after a reset: new queues send a canary too */
    _Atomic uint64_t code_nbytes[2];    /* in GTT; in VRAM */
    _Atomic uint64_t staged_nbytes, direct_nbytes;
    struct sp_anchors anchors;

    pthread_mutex_t lock; /* guards the members below */
    struct sp_counted *counted;     /* counters of the open queues */
    struct sp_amdgpu_counts before; /* sum of the closed queues' counters */
    struct sp_va *va;
    struct sp_bo *bos;
    struct sp_amdgpu_memory **memories; /* sorted by base */
    size_t nmemories, most_memories;
    struct sp_amdgpu_memory *pool[SP_POOLED];
    uint32_t npool;
    int closing;
    char why_lost[SP_FAULT_TEXT];
    struct sp_fault_text faults[SP_FAULT_TEXTS];
    uint32_t next_fault;
};

/* Call it after a write behind the GPU's caches. */
static inline void sp_amdgpu_wrote(struct sp_amdgpu *dev)
{
    atomic_fetch_add(&dev->written, 1);
}
int sp_amdgpu_ioctl(struct sp_amdgpu *dev, uint32_t request, void *arg);
/* Call it after an ioctl failed with `rc`. Repeats an interrupted ioctl, marks a removed card as
 * lost, and returns the final result. */
int sp_amdgpu_failed(struct sp_amdgpu *dev, uint32_t request, void *arg, int rc);
void sp_counted_begin(struct sp_amdgpu *dev, struct sp_counted *c);
void sp_counted_end(struct sp_amdgpu *dev, struct sp_counted *c);
void sp_amdgpu_ref(struct sp_amdgpu *dev);
void sp_amdgpu_unref(struct sp_amdgpu *dev);
void sp_amdgpu_use(struct sp_amdgpu *dev);
void sp_amdgpu_unuse(struct sp_amdgpu *dev);
void sp_amdgpu_lose(struct sp_amdgpu *dev, const char *why);
/* Checks that VRAM still holds its contents. 0. -ENODEV: a reset has erased VRAM since the device
 * was opened; the device is then lost. Another -errno: the kernel does not tell. A context knows
 * only of resets since its creation. */
int sp_amdgpu_intact(struct sp_amdgpu *dev);
/* How often the kernel has evicted memory of this card, of any process, for lack of room. */
int sp_amdgpu_evictions(struct sp_amdgpu *dev, uint64_t *out);
/* Records the text of this thread's failure, for sp_amdgpu_said. */
__attribute__((format(printf, 1, 2))) void sp_amdgpu_say(const char *format, ...);
#endif
