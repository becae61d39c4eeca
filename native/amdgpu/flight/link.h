/* The way from the memory of one device to another: chunks in GTT that both map, and a queue that fills them.
 *
 * The peer's queue (`reader`) copies into a chunk, the caller's queue copies out of it. Nobody waits for the other on the CPU.
 * Each chunk is a BO of its own, and the jobs that touch it name it: so the kernel makes the copy out wait for the copy in,
 * and the next copy in for the copy out (implicit sync between devices, docs/AMDGPU_FACTS.md 1.8 and 1.13). No other job names
 * it, or every job of one device would wait for jobs of the other. */
#ifndef SP_AMDGPU_LINK_H
#define SP_AMDGPU_LINK_H
#include "queue.h"

/* Four chunks keep both devices busy while two are at work; one takes 0.2 ms at 20 GB/s, some ten times what a job costs. */
enum { SP_CHUNK_NBYTES = 4 << 20, SP_LINK_CHUNKS = 4 };

struct sp_amdgpu_link {
    _Atomic uint32_t refs; /* the handle, and submissions on their way */
    struct sp_amdgpu_queue *reader;
    struct sp_amdgpu_memory *there[SP_LINK_CHUNKS], *here[SP_LINK_CHUNKS];
    pthread_mutex_t lock; /* from a copy into a chunk until the copy out of it is submitted; before the reader's lock */
    uint32_t next;
};

static inline void sp_link_ref(struct sp_amdgpu_link *link)
{
    atomic_fetch_add(&link->refs, 1);
}
#endif
