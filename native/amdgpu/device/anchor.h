/* The GPU's clock beside CLOCK_MONOTONIC; nothing here is asked where the GPU's clock has no known frequency. */
#ifndef SP_AMDGPU_ANCHOR_H
#define SP_AMDGPU_ANCHOR_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct sp_amdgpu;

enum { SP_PIECES = 16 };

/* From `ticks` on, until the next one begins. */
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

/* Takes a new anchor if the newest one is a second old: before ticks of a submission that has ended are asked for. */
void sp_anchor_renew(struct sp_amdgpu *dev);
/* CLOCK_MONOTONIC at these ticks. */
uint64_t sp_amdgpu_ns(struct sp_amdgpu *dev, uint64_t ticks);
/* How long so many ticks are, by the frequency that the kernel tells. */
uint64_t sp_ticks_ns(const struct sp_amdgpu *dev, uint64_t ticks);
#endif
