/* A queue and its submissions on their way. */
#ifndef SP_AMDGPU_QUEUE_H
#define SP_AMDGPU_QUEUE_H
#include "amdgpu/memory/kernel.h"
#include "core/queue.h"

/* The kernel tracks 32 jobs an entity and blocks the 33rd, without a timeout: we stop before. */
enum { SP_JOBS = 30, SP_RECORDED = 32, SP_MEASURED_TICKS = 2 * SP_JOBS, SP_TICKS = 4096 };

/* For so long a call waits for room: Python looks for Ctrl-C between two. */
enum { SP_PUSH_NS = 100 * 1000000 };

/* Which invalidations an engine's jobs have had: submit/job.c. Zeroed: none. */
struct sp_emptied {
    uint64_t written, code_turn; /* the device's, as of then */
    uint64_t evictions;          /* the card's, as of then or before */
    uint64_t job;                /* the newest that emptied L2 */
};

/* The entities of a queue's context: whole submissions go to the one or the other. */
enum sp_engine_kind { SP_ENGINE_COMPUTE = 0, SP_ENGINE_DMA = 1, SP_ENGINES = 2 };
struct sp_engine {
    uint32_t ip; /* AMDGPU_HW_IP_... */
    uint32_t entity; /* of the context: what an IB chunk calls its ring */
    struct sp_amdgpu_memory *ring; /* its IBs */
    struct sp_amdgpu_memory *args; /* their arguments; NULL: those stand at the end of an IB's slot */
    uint64_t jobs; /* submitted; the kernel counts those of this context, so that its number + base is ours */
    uint64_t jobs_done;
    uint64_t base;
    struct sp_emptied emptied;
    uint64_t used[SP_JOBS + SP_RECORDED]; /* the newest job that read arguments there; 0: none */
};

/* Behind its IBs, one of nothing but NOPs. */
enum { SP_CANARY_NBYTES = 64 };
static inline uint64_t sp_canary_at(const struct sp_engine *e)
{
    return e->ring->nbytes - SP_PAGE;
}

/* How far records have become packets. */
struct sp_cursor {
    size_t at;        /* the record */
    uint32_t from[3]; /* the group of that dispatch */
    uint32_t tick;    /* timestamps before it */
    uint64_t moved;   /* bytes of that copy (twice, by way of memory between) or fill */
};

/* A job whose time tells how many threads of that kernel fit into one. */
struct sp_measured {
    struct sp_amdgpu_kernel *kernel;
    uint64_t threads;
};

/* What a copy of host memory, or between devices, has beside its record. */
struct sp_transfer {
    struct sp_amdgpu_memory *kept[2]; /* let go of when the submission has ended */
    void *out;                        /* a download: `out_nbytes` go there from kept[0] */
    uint64_t out_nbytes;
    struct sp_amdgpu_memory *shared; /* what its jobs name beside what all jobs do */
    struct sp_amdgpu_link *link;     /* of a copy from another device, of its address `from` ... */
    uint64_t from;
    uint64_t first_read, last_read; /* ... by these values of the link's reader, and others' between; 0: none yet */
};

/* A submission on its way. */
struct sp_flight {
    struct sp_flight *next;
    uint64_t value;
    struct sp_engine *engine;
    struct sp_recorded *recorded; /* where its records and the IB of its first job are */
    uint64_t job; /* its last one there */
    uint64_t submitted_ns; /* by the coarse clock */
    int rc;       /* it failed before it was submitted to its end */
    int begun;    /* some of its jobs have been submitted */
    struct sp_cursor cursor;
    uint32_t first_tick, nticks;
    struct sp_transfer transfer;
    struct sp_amdgpu_memory *bounce;  /* of copies between places that overlap */
    const unsigned char *records;
    size_t nbytes;
    _Alignas(16) unsigned char copy[]; /* of records that are not recorded */
};

/* What a submission names to the kernel: submit/listed.c. Zeroed: nothing yet. */
struct sp_list {
    uint64_t turn; /* it holds while the device's list_turn is this */
    uint32_t n, most;
    struct drm_amdgpu_bo_list_entry *at;
};

/* Records whose IB is kept: submit/recorded.c. */
struct sp_recorded {
    uint64_t turn;    /* kernel_turn as they were encoded */
    uint64_t used;    /* the newest value */
    uint32_t flights; /* on their way with it */
    uint32_t ndw;     /* of the IB; 0: it cannot be sent again */
    uint32_t ndispatches;
    size_t nbytes, capacity;
    unsigned char *records;
    struct sp_list list;
};

/* The argument of the ioctl CS: chunks, their data, and pointers to those of one job. Most of it is written once. */
enum sp_chunk { SP_CHUNK_IB, SP_CHUNK_FENCE, SP_CHUNK_SIGNAL, SP_CHUNK_WAITS, SP_CHUNK_LIST, SP_CHUNKS };
enum { SP_WAITS = 16, SP_AGAIN = SP_CHUNK_SIGNAL + 1 /* chunks of a job that comes again: the first */ };
struct sp_request {
    struct drm_amdgpu_cs_chunk chunk[SP_CHUNKS];
    struct drm_amdgpu_cs_chunk_ib ib;
    struct drm_amdgpu_cs_chunk_fence fence;
    struct drm_amdgpu_cs_chunk_syncobj signal, waits[SP_WAITS];
    struct drm_amdgpu_bo_list_in list;
    uint64_t pointer[SP_CHUNKS];
};

struct sp_amdgpu_queue {
    struct sp_queue common;
    struct sp_amdgpu *dev;
    /* Sends more of what has been begun, for at most so long: 0 when nothing is left of it, -EAGAIN. With the lock. */
    int (*push)(struct sp_amdgpu_queue *q, uint64_t timeout_ns);
    uint32_t syncobj; /* a timeline: at a submission's value when it has ended */
    _Atomic uint64_t reached;
    _Atomic uint64_t looked_ns; /* when the kernel was last asked whether something failed */
    _Atomic(volatile uint64_t *) page; /* eight bytes for each engine, which the kernel writes; NULL once closed */
    _Atomic uint64_t seen[SP_ENGINES]; /* what was last read there */

    uint32_t ctx; /* this and what follows: with the lock */
    struct sp_engine engine[SP_ENGINES];
    uint32_t idles; /* values that idle packets have written */
    struct sp_amdgpu_memory *fence, *ticks, *scratch;
    uint32_t scratch_waves;
    uint32_t next_tick, ticks_used;
    struct sp_flight *head, *tail;
    struct sp_flight *spare; /* for what is recorded */
    struct sp_recorded recorded[SP_RECORDED];
    uint64_t key[SP_RECORDED];
    uint32_t guess; /* the one that came last */
    struct sp_request request, again; /* of any job; of an IB that comes again */
    struct sp_counted counted;
    struct sp_flight *sending; /* the one whose jobs are being submitted; behind `tail` */
    _Atomic uint64_t sent;     /* the newest value whose jobs have all been submitted */
    struct sp_measured measured[SP_JOBS]; /* by slot of the compute engine */
    struct sp_list list; /* of the newest submission, unless it is recorded */
};
#endif
