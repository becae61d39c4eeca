/* The struct of a queue of the AMD device, and of its submissions in flight. */
#ifndef SP_AMDGPU_QUEUE_H
#define SP_AMDGPU_QUEUE_H
#include "amdgpu/memory/kernel.h"
#include "core/queue.h"

/* The kernel driver accepts 32 jobs per entity and blocks the 33rd CS ioctl without a timeout. So a
 * queue has at most SP_JOBS jobs of an entity in flight. */
enum { SP_JOBS = 30, SP_CACHED_IBS = 32, SP_MEASURED_TICKS = 2 * SP_JOBS, SP_TICKS = 4096 };

/* The longest time that one call waits for room in the queue. Python checks for Ctrl-C between two
 * calls. */
enum { SP_PUSH_NS = 100 * 1000000 };

/* The device's counters when a job of the engine last invalidated L2 (submit/job.c). All members
 * are 0 if no job has done so yet. */
struct sp_emptied {
    /* the device's counters of these names at the newest invalidation of L2 */
    uint64_t written, code_turn;
    uint64_t evictions; /* the card's eviction counter, read before the newest invalidation of L2 */
    uint64_t job;       /* newest job that invalidated L2 */
};

/* The engines (entities of the kernel driver) of a queue's context. All jobs of a submission go to
 * one engine. */
enum sp_engine_kind { SP_ENGINE_COMPUTE = 0, SP_ENGINE_DMA = 1, SP_ENGINES = 2 };
struct sp_engine {
    uint32_t ip; /* AMDGPU_HW_IP_... */
    uint32_t entity; /* index of the entity in the context: the `ring` of an IB chunk */
    struct sp_amdgpu_memory *ring; /* memory that holds the IBs of this engine */
    /* memory that holds the kernel arguments; NULL: the arguments stand at the end of an IB's
     * slot */
    struct sp_amdgpu_memory *args;
    /* Number of submitted jobs. The kernel driver numbers the jobs of each context from 1. The
     * number of a job in this struct is that number plus `base`. */
    uint64_t jobs;
    uint64_t jobs_done;
    uint64_t base;
    struct sp_emptied emptied;
    /* for each slot (`slot` of struct sp_job): number of the newest job that read its arguments
     * there; 0 if none did */
    uint64_t used[SP_JOBS + SP_CACHED_IBS];
};

/* The canary is an IB of NOPs, which lies after the slots of the ring. */
enum { SP_CANARY_NBYTES = 64 };
static inline uint64_t sp_canary_at(const struct sp_engine *e)
{
    return e->ring->nbytes - SP_PAGE;
}

/* Position of the encoder in the records of a submission. */
struct sp_cursor {
    size_t at;        /* offset of the current record */
    /* x, y, z of the first group of the current dispatch that is not encoded yet */
    uint32_t from[3];
    uint32_t tick;    /* index of the next timestamp */
    /* Bytes of the current copy or fill that are already encoded. A copy over a bounce buffer
     * counts each byte twice. */
    uint64_t moved;
};

/* A job that is timed to learn the speed of its kernel. The speed limits how many threads of that
 * kernel later jobs run. */
struct sp_measured {
    struct sp_amdgpu_kernel *kernel;
    uint64_t threads;
};

/* Extra data of a submission that copies from or to the host, or between devices. */
struct sp_transfer {
    struct sp_amdgpu_memory *kept[2]; /* memory that the submission keeps until its end */
    void *out; /* target of a download: at the end the CPU copies `out_nbytes` there from kept[0] */
    uint64_t out_nbytes;
    /* the chunk of a link (flight/link.h) that this copy fills, and that its job names in its BO
     * list; NULL for other transfers */
    struct sp_amdgpu_memory *shared;
    /* Only for a copy from another device: the link to that device, and in `from` the source
     * address there. */
    struct sp_amdgpu_link *link;
    uint64_t from;
    /* First and last timeline values of the reads for this copy, which link->reader (a queue of the
     * other device) makes; 0 before the first read. Reads for other copies may have values between
     * them. */
    uint64_t first_read, last_read;
};

/* A submission in flight: submitted, and not yet known to have ended. */
struct sp_flight {
    struct sp_flight *next;
    uint64_t value;
    struct sp_engine *engine;
    /* the records of this submission with their IB, if the queue keeps them for reuse; else NULL */
    struct sp_cached_ib *recorded;
    uint64_t job; /* number of the submission's last job on `engine` */
    uint64_t submitted_ns; /* time of submission, by sp_clock_coarse_ns */
    int rc;       /* error that stopped the submission; 0 if none did */
    int begun;    /* 1 if at least one job has been submitted */
    struct sp_cursor cursor;
    uint32_t first_tick, nticks;
    struct sp_transfer transfer;
    struct sp_amdgpu_memory *bounce;  /* buffer for copies whose ranges overlap */
    const unsigned char *records;
    size_t nbytes;
    _Alignas(16) unsigned char copy[]; /* copy of the records; empty if `recorded` is set */
};

/* The list of memory (BO handles) that a submission names to the kernel driver: submit/bo_list.c.
 * If all members are 0, the list is not made yet. */
struct sp_bo_list {
    uint64_t turn; /* this list of BOs is valid while `turn` equals the device's list_turn */
    uint32_t n, most;
    struct drm_amdgpu_bo_list_entry *at;
};

/* Records whose encoded IB the queue keeps for reuse: submit/ib_cache.c. */
struct sp_cached_ib {
    uint64_t turn;    /* the device's `kernel_turn` when the IB was encoded */
    uint64_t used;    /* newest timeline value whose submission used this IB */
    uint32_t flights; /* number of submissions in flight that use this IB */
    uint32_t ndw;     /* dwords of the IB; 0 if the IB cannot be sent again */
    uint32_t ndispatches;
    size_t nbytes, capacity;
    unsigned char *records;
    struct sp_bo_list list;
};

/* The argument of the CS ioctl: chunks, their data, and pointers to the chunks of one job. Most
 * members are set once, when the queue is made. */
enum sp_chunk { SP_CHUNK_IB, SP_CHUNK_FENCE, SP_CHUNK_SIGNAL, SP_CHUNK_WAITS, SP_CHUNK_LIST, SP_CHUNKS };
/* an IB that is sent again from `recorded` uses only the first SP_AGAIN chunks: IB, FENCE and
 * SIGNAL */
enum { SP_WAITS = 16, SP_AGAIN = SP_CHUNK_SIGNAL + 1 };
struct sp_request {
    struct drm_amdgpu_cs_chunk chunk[SP_CHUNKS];
    struct drm_amdgpu_cs_chunk_ib ib;
    struct drm_amdgpu_cs_chunk_fence fence;
    struct drm_amdgpu_cs_chunk_syncobj signal, waits[SP_WAITS];
    struct drm_amdgpu_bo_list_in list;
    uint64_t pointer[SP_CHUNKS];
    struct sp_amdgpu_queue *waited[SP_WAITS]; /* the pinned queues for which the job waits */
    uint32_t nwaited;
};

struct sp_amdgpu_queue {
    struct sp_queue common;
    struct sp_amdgpu *dev;
    /* Sends more jobs of the submission `sending`, for at most `timeout_ns`. Returns 0 if all jobs
     * are sent, -EAGAIN if more are left. The caller holds the queue's lock. */
    int (*push)(struct sp_amdgpu_queue *q, uint64_t timeout_ns);
    /* handle of a timeline syncobj, which reaches a submission's value when the submission ends */
    uint32_t syncobj;
    _Atomic uint64_t reached;
    _Atomic uint64_t looked_ns; /* time of the last check for failed jobs */
    /* The fence page: eight bytes per engine, where the fence packets of the kernel driver write
     * the number of each job that has succeeded. NULL once the queue is closed. */
    _Atomic(volatile uint64_t *) page;
    /* number of calls that use `page` or `syncobj` without the lock; a close waits for their end */
    _Atomic uint32_t pins;
    _Atomic uint64_t seen[SP_ENGINES]; /* value last read from `page` for each engine */

    uint32_t ctx; /* the queue's lock guards this member and all below */
    struct sp_engine engine[SP_ENGINES];
    /* Number of packet sequences (struct sp_amdgpu_packets), encoded so far, that wait until the
     * GPU is idle. Each sequence writes its own number, counted from 1, to memory, and then
     * waits until memory holds this number. */
    uint32_t idles;
    struct sp_amdgpu_memory *fence, *ticks, *scratch;
    uint32_t scratch_waves;
    uint32_t next_tick, ticks_used;
    struct sp_flight *head, *tail;
    /* unused structs for submissions that send an IB of `recorded` again */
    struct sp_flight *spare;
    struct sp_cached_ib recorded[SP_CACHED_IBS];
    uint64_t key[SP_CACHED_IBS];
    uint32_t guess; /* index in `recorded` of the entry that the last look-up found */
    /* arguments of the CS ioctl: `again` for a job that sends a recorded IB again, `request` for
     * any other */
    struct sp_request request, again;
    struct sp_counted counted;
    /* submission whose jobs are partly sent; not yet in the list from `head` to `tail` */
    struct sp_flight *sending;
    _Atomic uint64_t sent;     /* newest timeline value whose submission has sent all its jobs */
    struct sp_measured measured[SP_JOBS]; /* one entry per job slot of the compute engine */
    /* BO list of the newest submission whose records the queue does not keep in `recorded` */
    struct sp_bo_list list;
};

/* Keeps the fence page and `syncobj` until sp_amdgpu_unpin, although another thread closes the queue.
 * Returns the fence page. Returns NULL if the queue is closed; there is nothing to unpin then. */
static inline volatile uint64_t *sp_amdgpu_pin(struct sp_amdgpu_queue *q)
{
    atomic_fetch_add(&q->pins, 1);
    volatile uint64_t *page = atomic_load(&q->page);
    if (!page)
        atomic_fetch_sub(&q->pins, 1);
    return page;
}

static inline void sp_amdgpu_unpin(struct sp_amdgpu_queue *q)
{
    atomic_fetch_sub(&q->pins, 1);
}
#endif
