/* A queue and its submissions in flight. */
#ifndef SP_AMDGPU_QUEUE_H
#define SP_AMDGPU_QUEUE_H
#include "amdgpu/memory/kernel.h"
#include "core/queue.h"

/* The kernel tracks 32 jobs per entity and blocks at the 33rd without a timeout. So a queue stops
 * before that. */
enum { SP_JOBS = 30, SP_RECORDED = 32, SP_MEASURED_TICKS = 2 * SP_JOBS, SP_TICKS = 4096 };

/* The longest time that a call waits for room. Python checks for Ctrl-C between two calls. */
enum { SP_PUSH_NS = 100 * 1000000 };

/* Invalidations that an engine's jobs have made: submit/job.c. Zeroed: none. */
struct sp_emptied {
    uint64_t written, code_turn; /* the device's counters at that time */
    uint64_t evictions;          /* the card's count at that time or before */
    uint64_t job;                /* newest job that emptied L2 */
};

/* The entities of a queue's context. A whole submission goes to one of them. */
enum sp_engine_kind { SP_ENGINE_COMPUTE = 0, SP_ENGINE_DMA = 1, SP_ENGINES = 2 };
struct sp_engine {
    uint32_t ip; /* AMDGPU_HW_IP_... */
    uint32_t entity; /* of the context: the `ring` of an IB chunk */
    struct sp_amdgpu_memory *ring; /* memory of its IBs */
    /* memory of their arguments; NULL: arguments stand at the end of an IB's slot */
    struct sp_amdgpu_memory *args;
    /* submitted jobs; the kernel counts those of this context, and its number + base is ours */
    uint64_t jobs;
    uint64_t jobs_done;
    uint64_t base;
    struct sp_emptied emptied;
    uint64_t used[SP_JOBS + SP_RECORDED]; /* newest job that read arguments in each slot; 0: none */
};

/* A slot behind the IBs, filled with NOPs. */
enum { SP_CANARY_NBYTES = 64 };
static inline uint64_t sp_canary_at(const struct sp_engine *e)
{
    return e->ring->nbytes - SP_PAGE;
}

/* Position of the encoder in a submission's records. */
struct sp_cursor {
    size_t at;        /* offset of the record */
    uint32_t from[3]; /* next group of that dispatch */
    uint32_t tick;    /* timestamps before it */
    /* bytes done of that copy or fill; counted twice for a copy over a bounce buffer */
    uint64_t moved;
};

/* A job whose duration tells how many threads of that kernel fit into one job. */
struct sp_measured {
    struct sp_amdgpu_kernel *kernel;
    uint64_t threads;
};

/* Data of a copy from or to the host, or between devices, besides its record. */
struct sp_transfer {
    struct sp_amdgpu_memory *kept[2]; /* released when the submission has ended */
    void *out;                        /* a download: `out_nbytes` are copied there from kept[0] */
    uint64_t out_nbytes;
    struct sp_amdgpu_memory *shared; /* listed by its jobs, besides what all jobs list */
    /* a copy from another device: its link, and `from`, the address there */
    struct sp_amdgpu_link *link;
    uint64_t from;
    /* first and last value of the link's reader for this copy; other copies may be between them; 0:
     * none yet */
    uint64_t first_read, last_read;
};

/* A submission in flight. */
struct sp_flight {
    struct sp_flight *next;
    uint64_t value;
    struct sp_engine *engine;
    struct sp_recorded *recorded; /* holds its records and the IB of its first job */
    uint64_t job; /* its last job on that engine */
    uint64_t submitted_ns; /* on the coarse clock */
    int rc;       /* error that stopped its submission */
    int begun;    /* some of its jobs have been submitted */
    struct sp_cursor cursor;
    uint32_t first_tick, nticks;
    struct sp_transfer transfer;
    struct sp_amdgpu_memory *bounce;  /* buffer for copies whose ranges overlap */
    const unsigned char *records;
    size_t nbytes;
    _Alignas(16) unsigned char copy[]; /* its records, unless they are recorded */
};

/* The memory that a submission lists for the kernel: submit/listed.c. Zeroed: not made yet. */
struct sp_list {
    uint64_t turn; /* valid while it equals the device's list_turn */
    uint32_t n, most;
    struct drm_amdgpu_bo_list_entry *at;
};

/* Records whose IB is kept: submit/recorded.c. */
struct sp_recorded {
    uint64_t turn;    /* kernel_turn at the time of encoding */
    uint64_t used;    /* newest value that used it */
    uint32_t flights; /* submissions in flight that use it */
    uint32_t ndw;     /* dwords of the IB; 0: it cannot be sent again */
    uint32_t ndispatches;
    size_t nbytes, capacity;
    unsigned char *records;
    struct sp_list list;
};

/* The argument of the CS ioctl: chunks, their data, and pointers to the chunks of one job. Most of
 * it is written once. */
enum sp_chunk { SP_CHUNK_IB, SP_CHUNK_FENCE, SP_CHUNK_SIGNAL, SP_CHUNK_WAITS, SP_CHUNK_LIST, SP_CHUNKS };
enum { SP_WAITS = 16, SP_AGAIN = SP_CHUNK_SIGNAL + 1 /* a recorded IB uses only the chunks before it */ };
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
    /* Sends more of a submission that was begun, for at most `timeout_ns`. 0: everything is sent.
     * -EAGAIN: more is left. With the lock. */
    int (*push)(struct sp_amdgpu_queue *q, uint64_t timeout_ns);
    uint32_t syncobj; /* a timeline that reaches a submission's value at its end */
    _Atomic uint64_t reached;
    _Atomic uint64_t looked_ns; /* time of the last check for failed jobs */
    _Atomic(volatile uint64_t *) page; /* eight bytes per engine, which the kernel writes; NULL once closed */
    _Atomic uint64_t seen[SP_ENGINES]; /* values last read there */

    uint32_t ctx; /* this and the members below: with the lock */
    struct sp_engine engine[SP_ENGINES];
    uint32_t idles; /* values written by idle packets */
    struct sp_amdgpu_memory *fence, *ticks, *scratch;
    uint32_t scratch_waves;
    uint32_t next_tick, ticks_used;
    struct sp_flight *head, *tail;
    struct sp_flight *spare; /* kept for recorded submissions */
    struct sp_recorded recorded[SP_RECORDED];
    uint64_t key[SP_RECORDED];
    uint32_t guess; /* index of the last one used */
    struct sp_request request, again; /* for any job; for a recorded IB */
    struct sp_counted counted;
    /* submission whose jobs are being sent; not in the list up to `tail` */
    struct sp_flight *sending;
    _Atomic uint64_t sent;     /* newest value whose jobs have all been submitted */
    struct sp_measured measured[SP_JOBS]; /* by slot of the compute engine */
    struct sp_list list; /* of the newest submission that is not recorded */
};
#endif
