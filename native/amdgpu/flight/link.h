/* A link copies memory of one device (the peer) to another. A link has chunks in GTT that both
 * devices map, and a queue of the peer that fills the chunks.
 *
 * The peer's queue (`reader`) copies into a chunk. The caller's queue copies out of that chunk. The
 * CPU waits for neither. Each chunk is a BO of its own, and only the jobs that touch the chunk list
 * that BO. So the kernel driver makes the copy out wait for the copy in, and the next copy in wait
 * for the copy out. This is implicit sync between devices (docs/AMDGPU_FACTS.md 1.8 and 1.13). If
 * other jobs listed the chunk, all jobs of one device would wait for the other device. */
#ifndef SP_AMDGPU_LINK_H
#define SP_AMDGPU_LINK_H
#include "queue.h"

/* The peer fills one chunk while the caller's device empties another. Four chunks keep both devices
 * busy. A chunk takes 0.2 ms at 20 GB/s, some ten times the cost of a job. */
enum { SP_CHUNK_NBYTES = 4 << 20, SP_LINK_CHUNKS = 4 };

struct sp_amdgpu_link {
    _Atomic uint32_t refs; /* references: the caller's handle, and submissions in flight */
    struct sp_amdgpu_queue *reader;
    struct sp_amdgpu_memory *there[SP_LINK_CHUNKS], *here[SP_LINK_CHUNKS];
    /* A thread holds this lock from a copy into a chunk until the copy out of that chunk is
     * submitted. The thread takes this lock before the lock of the queue `reader`. */
    pthread_mutex_t lock;
    uint32_t next;
};

static inline void sp_link_ref(struct sp_amdgpu_link *link)
{
    atomic_fetch_add(&link->refs, 1);
}
#endif
