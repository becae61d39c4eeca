/* The amdgpu device's struct; nothing outside native/amdgpu sees inside it. Locks: a queue's, then the device's. */
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

/* What a queue has done. Its lock guards the writes, so that none of them locks the bus; anybody reads. */
struct sp_counted {
    _Atomic uint64_t submissions, jobs, dma_jobs, ioctls, ib_ndw, dispatches;
    struct sp_counted *next;
};
static inline void sp_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

enum { SP_PIECES = 16 };
/* The GPU's clock beside CLOCK_MONOTONIC (anchor.c): a piece of the line, from `ticks` on, until the next one begins. */
struct sp_piece {
    uint64_t ticks;
    int64_t ns;
    double ns_per_tick;
};

struct sp_anchors {
    _Atomic uint64_t due_ns;
    pthread_mutex_t lock; /* guards what follows; taken last */
    uint64_t ticks; /* the newest anchor ... */
    int64_t ns;     /* ... beside CLOCK_MONOTONIC */
    uint64_t told;  /* the newest ticks that were asked for */
    struct sp_piece piece[SP_PIECES];
    uint32_t n; /* pieces so far; the newest SP_PIECES are kept */
};

struct sp_amdgpu {
    struct sp_device common;
    const struct sp_kmd_ops *ops;
    int fd;
    uint32_t always_valid; /* the kernel knows that flag */
    uint32_t vram_lost; /* times that VRAM had been lost when it was opened */
    struct sp_amdgpu_setup setup;
    _Atomic uint32_t refs;  /* of this struct: owner, queues, kernels, memory */
    _Atomic uint32_t users; /* of the descriptor: owner, queues that are not closed, memory */
    _Atomic size_t nlisted; /* of `memories`: those that some submission must name; changed with them */
    _Atomic uint64_t list_turn; /* grows when one of those comes or goes; from 1 */
    _Atomic uint64_t kernel_turn; /* grows when a kernel goes, or its jobs are to become shorter */
    _Atomic uint64_t written;   /* grows after memory was written past the GPU's caches; from 1: submit/job.c */
    _Atomic uint64_t code_turn; /* grows when code came; from 1 */
    _Atomic uint64_t exposed;   /* memories, and views of them, that others may write at any time */
    _Atomic uint64_t ioctls, displaced; /* ioctls but for CS */
    _Atomic int no_dma; /* the engine for copies ran nothing after a reset, and is not used any more */
    _Atomic int suspect; /* a ring was dead after a reset: new queues send a canary, too */
    _Atomic uint64_t code_nbytes[2];    /* in GTT; in VRAM */
    _Atomic uint64_t staged_nbytes, direct_nbytes;
    struct sp_anchors anchors;

    pthread_mutex_t lock; /* guards what follows */
    struct sp_counted *counted;     /* of its queues */
    struct sp_amdgpu_counts before; /* of those that are gone */
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

/* Memory that the GPU's caches may hold has been written behind their back. */
static inline void sp_amdgpu_wrote(struct sp_amdgpu *dev)
{
    atomic_fetch_add(&dev->written, 1);
}
int sp_amdgpu_ioctl(struct sp_amdgpu *dev, uint32_t request, void *arg);
/* After an ioctl that failed with `rc`: an interrupted one is made again, and a card that is gone is lost. What is final. */
int sp_amdgpu_failed(struct sp_amdgpu *dev, uint32_t request, void *arg, int rc);
void sp_counted_begin(struct sp_amdgpu *dev, struct sp_counted *c);
void sp_counted_end(struct sp_amdgpu *dev, struct sp_counted *c);
void sp_amdgpu_ref(struct sp_amdgpu *dev);
void sp_amdgpu_unref(struct sp_amdgpu *dev);
void sp_amdgpu_use(struct sp_amdgpu *dev);
void sp_amdgpu_unuse(struct sp_amdgpu *dev);
void sp_amdgpu_lose(struct sp_amdgpu *dev, const char *why);
/* What is in VRAM is what was put there: 0; -ENODEV when a reset has lost it since the device was opened, and then the device
 * is lost, too; another -errno when the kernel does not say. A context knows of resets since it was made only. */
int sp_amdgpu_intact(struct sp_amdgpu *dev);
/* How often the kernel has moved memory of this card, anybody's, for want of room. */
int sp_amdgpu_evictions(struct sp_amdgpu *dev, uint64_t *out);
/* Words about how a call of this thread failed, for sp_amdgpu_said. */
__attribute__((format(printf, 1, 2))) void sp_amdgpu_say(const char *format, ...);
#endif
