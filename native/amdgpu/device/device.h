/* The amdgpu device's own objects; nothing outside native/amdgpu sees inside them. Locks: a queue's, then the device's. */
#ifndef SP_AMDGPU_DEVICE_H
#define SP_AMDGPU_DEVICE_H
#include "core/base.h"
#include "core/queue.h"
#include "core/timeline.h"
#include "include/sp_amdgpu.h"
#include "include/sp_extents.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SP_PAGE = 4096, SP_KERNEL_MAGIC_AMD = 0x6b646d61 }; /* "amdk" */
/* The kernel tracks 32 jobs an entity and blocks the 33rd, without a timeout: we stop before. */
enum { SP_JOBS = 30, SP_RECORDED = 32, SP_MEASURED_TICKS = 2 * SP_JOBS, SP_SLOT_NBYTES = 32768, SP_TICKS = 4096 };
enum { SP_FAULT_TEXTS = 32, SP_FAULT_TEXT = 256, SP_POOLED = 32, SP_WAITS = 16 };

/* For so long a call waits for room: Python looks for Ctrl-C between two. */
enum { SP_PUSH_NS = 100 * 1000000 };

static const uint64_t SP_IOCTL_NS = UINT64_C(5) * 1000000000; /* who is asked to come again for so long, gives up */

/* A BO by its handle in our open: importing what one exported gives the same handle again. */
struct sp_bo {
    uint32_t handle;
    uint32_t refs;
    uint64_t nbytes;
    void *mapping; /* NULL until asked for */
    int dmabuf;    /* of a BO that came by a descriptor, else -1 */
    struct sp_bo *next;
};

struct sp_amdgpu_memory {
    struct sp_amdgpu *dev;
    struct sp_bo *bo;
    _Atomic uint32_t refs;
    uint32_t kind;
    uint32_t domain; /* AMDGPU_GEM_DOMAIN_VRAM or _GTT */
    uint64_t va;     /* of the first byte that was asked for */
    uint64_t base;   /* mapped from here on ... */
    uint64_t nbytes; /* ... so many bytes */
    uint32_t listed; /* every job must name it: it is not VM_ALWAYS_VALID */
    uint32_t cpu;    /* the CPU can map it */
    void *host;      /* of `va`, when wrapped */
};

struct sp_fault_text {
    const void *q;
    uint64_t value;
    char text[SP_FAULT_TEXT];
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
    _Atomic size_t nlisted; /* of `memories`; changed with them */
    _Atomic uint64_t kernel_turn; /* grows when a kernel goes, or its jobs are to become shorter */
    _Atomic uint64_t ioctls, jobs, dma_jobs, submissions, ib_ndw, dispatches, displaced;
    int64_t clock_offset_ns; /* CLOCK_MONOTONIC less the GPU clock */

    pthread_mutex_t lock; /* guards what follows */
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

struct sp_amdgpu_kernel {
    uint32_t magic;
    struct sp_amdgpu *dev;
    struct sp_amdgpu_memory *code;
    struct sp_amdgpu_template t;
    struct sp_signature sig;
    struct sp_extents extents; /* of sig */
    _Atomic uint64_t job_threads; /* length.c */
};

/* The entities of a queue's context: whole submissions go to the one or the other. */
enum sp_engine_kind { SP_ENGINE_COMPUTE = 0, SP_ENGINE_DMA = 1, SP_ENGINES = 2 };
struct sp_engine {
    uint32_t ip; /* AMDGPU_HW_IP_... */
    struct sp_amdgpu_memory *ring; /* its IBs */
    uint64_t jobs; /* submitted; the kernel counts those of this context, so that its number + base is ours */
    uint64_t jobs_done;
    uint64_t base;
};

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

/* Records whose IB is kept: recorded.c. */
struct sp_recorded {
    uint64_t key;
    uint64_t turn;    /* kernel_turn as they were encoded */
    uint64_t used;    /* the newest value */
    uint32_t flights; /* on their way with it */
    uint32_t ndw;     /* of the IB; 0: it cannot be sent again */
    uint32_t ndispatches;
    size_t nbytes, capacity;
    unsigned char *records;
};

struct sp_amdgpu_queue {
    struct sp_queue common;
    struct sp_amdgpu *dev;
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
    uint32_t guess; /* the one that came last */
    struct sp_flight *sending; /* the one whose jobs are being submitted; behind `tail` */
    _Atomic uint64_t sent;     /* the newest value whose jobs have all been submitted */
    struct sp_measured measured[SP_JOBS]; /* by slot of the compute engine */
    struct drm_amdgpu_bo_list_entry *list;
    size_t most_list;
};

/* device.c, facts.c */
int sp_amdgpu_ioctl(struct sp_amdgpu *dev, uint32_t request, void *arg);
int sp_amdgpu_info_raw(const struct sp_kmd_ops *ops, int fd, uint32_t query, uint32_t type, void *out, uint32_t nbytes);
void sp_amdgpu_ref(struct sp_amdgpu *dev);
void sp_amdgpu_unref(struct sp_amdgpu *dev);
void sp_amdgpu_use(struct sp_amdgpu *dev);
void sp_amdgpu_unuse(struct sp_amdgpu *dev);
void sp_amdgpu_lose(struct sp_amdgpu *dev, const char *why);
/* What is in VRAM is what was put there: 0; -ENODEV when a reset has lost it since the device was opened, and then the device
 * is lost, too; another -errno when the kernel does not say. A context knows of resets since it was made only. */
int sp_amdgpu_intact(struct sp_amdgpu *dev);
uint64_t sp_amdgpu_ns(const struct sp_amdgpu *dev, uint64_t ticks);

/* memory.c: the memory that has all these bytes, and the address of the first for the CPU (NULL: it cannot reach it) */
struct sp_amdgpu_memory *sp_amdgpu_find(struct sp_amdgpu *dev, uint64_t address, uint64_t nbytes, void **host);
/* Handles that every job must name, in `*list`, which grows: how many, or -ENOMEM. */
int64_t sp_amdgpu_listed(struct sp_amdgpu *dev, struct drm_amdgpu_bo_list_entry **list, size_t *most);
void sp_amdgpu_pool_empty(struct sp_amdgpu *dev);

/* bo.c */
int sp_bo_create(struct sp_amdgpu *dev, uint64_t nbytes, uint64_t domains, uint64_t flags, struct sp_bo **out);
int sp_bo_adopt(struct sp_amdgpu *dev, uint32_t handle, uint64_t nbytes, struct sp_bo **out);
void sp_bo_drop(struct sp_amdgpu *dev, struct sp_bo *bo);
int sp_bo_map(struct sp_amdgpu *dev, struct sp_bo *bo);
int sp_bo_va(struct sp_amdgpu *dev, const struct sp_bo *bo, uint32_t operation, uint64_t va, uint64_t nbytes,
             uint32_t flags);

/* job.c: an IB that is being written, in a slot of the queue's ring; arguments grow from the slot's end */
struct sp_job {
    struct sp_amdgpu_queue *q;
    struct sp_flight *flight;
    uint32_t *ib;
    uint32_t ndw;
    uint64_t args_at; /* bytes from the slot's beginning */
    uint64_t va;
    int dirty;        /* something ran that the next must see */
    int copying;      /* a DMA_DATA that nobody waited for */
    int copies_only;  /* it is for the ring for copies */
    int clocks;       /* it stores the GPU's clock where only this submission may */
    uint64_t threads, copied; /* so far: a job must stay far below the kernel's limit of time */
    uint32_t ndispatches;
    struct sp_measured measured; /* all that is in it, if it is measured */
    uint32_t nwaits;
    struct drm_amdgpu_cs_chunk_syncobj waits[SP_WAITS];
};
int sp_job_begin(struct sp_job *job);
int sp_job_fits(const struct sp_job *job, uint32_t ndw, uint64_t args_nbytes);
/* Zeroed dwords, for a packet. */
uint32_t *sp_job_put(struct sp_job *job, uint32_t ndw);
void *sp_job_args(struct sp_job *job, uint64_t nbytes, uint64_t align, uint64_t *va);
void sp_job_order(struct sp_job *job);
/* Ends the IB and submits it; point 0: more of this submission follows. */
int sp_job_submit(struct sp_job *job, uint64_t point);
/* The same for an IB that has been ended. */
int sp_job_send(struct sp_job *job, uint64_t point);

/* length.c: how long the jobs of a kernel become */
uint64_t sp_job_limit(const struct sp_amdgpu *dev, const struct sp_amdgpu_kernel *k);
void sp_job_measure(struct sp_job *job, struct sp_amdgpu_kernel *k, uint64_t threads); /* before its first dispatch */
void sp_job_measure_end(struct sp_job *job);
void sp_amdgpu_learn(struct sp_amdgpu_queue *q, uint64_t done, uint64_t now_done); /* compute jobs that have ended */

/* encode.c, copy.c. Goes on from the flight's cursor: 0 to the end of the records, 1 until the job is full, or -errno. */
enum { SP_JOB_FULL = 1 };
int sp_encode(struct sp_job *job, const void *records, size_t nbytes);
void sp_encode_start(struct sp_job *job, uint64_t va);
void sp_encode_clock(struct sp_job *job, uint64_t va);
int sp_encode_copy(struct sp_job *job, uint64_t dst, uint64_t src, uint64_t nbytes);
int sp_encode_fill(struct sp_job *job, const struct sp_cmd_fill *f);
int sp_copy_overlaps(const struct sp_cmd_copy *c);

/* check.c */
int sp_amdgpu_check_dispatch(const struct sp_amdgpu *dev, const void *record, size_t nbytes);

/* sdma.c: packets of the ring for copies, as copy.c and job.c ask for them */
void sp_sdma_copy(struct sp_job *job, uint64_t dst, uint64_t src, uint64_t nbytes);
void sp_sdma_fill(struct sp_job *job, uint64_t dst, uint32_t value, uint64_t nbytes);
void sp_sdma_order(struct sp_job *job);
void sp_sdma_end(struct sp_job *job);

/* flight.c; with what is recorded, `records` are there */
struct sp_flight *sp_flight_begin(struct sp_amdgpu_queue *q, struct sp_recorded *recorded, const void *records, size_t nbytes);
void sp_flight_line_up(struct sp_amdgpu_queue *q, struct sp_flight *f); /* behind the others on their way */
void sp_flight_end(struct sp_amdgpu_queue *q, struct sp_flight *f);

/* recorded.c. Entered: the value of records that were sent once more; 0: they go the way of new ones; or -errno. They need no
 * check. `guess`: which it may be, and then was. */
int64_t sp_recorded_again(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint32_t *guess);
/* A slot for records whose IB may be kept; NULL: there is none, or it may not. */
struct sp_recorded *sp_recorded_begin(struct sp_amdgpu_queue *q, const void *records, size_t nbytes);
uint64_t sp_recorded_slot(const struct sp_job *job); /* the slot of the ring that a job is written to */
void sp_recorded_keep(const struct sp_job *job);     /* it has all of its submission, and was sent */
void sp_recorded_free(struct sp_amdgpu_queue *q);

/* submit.c: once entered, and the records are checked. What `transfer` (or NULL) keeps is the submission's own when this succeeds. */
int64_t sp_amdgpu_enqueue(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, const struct sp_transfer *transfer);
/* Sends more of what has been begun, for at most so long: 0 when nothing is left of it, -EAGAIN. */
int sp_amdgpu_push(struct sp_amdgpu_queue *q, uint64_t timeout_ns);

/* progress.c; callers hold the queue's lock, but for sleep */
void sp_amdgpu_retire(struct sp_amdgpu_queue *q);
void sp_amdgpu_inspect(struct sp_amdgpu_queue *q);
int sp_amdgpu_recover(struct sp_amdgpu_queue *q, int rc);
/* Waits for a free slot: 0, -EAGAIN, or what the queue failed with. */
int sp_amdgpu_room(struct sp_amdgpu_queue *q, const struct sp_engine *engine, uint64_t timeout_ns);
/* Waits until nothing is on its way, for 0.1 s: 0, -EAGAIN, or what the queue failed with. */
int sp_amdgpu_idle(struct sp_amdgpu_queue *q);
int sp_amdgpu_sleep(struct sp_amdgpu_queue *q, uint64_t value, uint64_t deadline_ns);

/* context.c */
int sp_amdgpu_queue_make(struct sp_amdgpu_queue *q);
void sp_amdgpu_queue_unmake(struct sp_amdgpu_queue *q);
int sp_amdgpu_queue_renew(struct sp_amdgpu_queue *q, uint64_t *flags);
int sp_amdgpu_queue_scratch(struct sp_amdgpu_queue *q, uint64_t wave_nbytes);
void *sp_amdgpu_host(const struct sp_amdgpu_memory *m);
#endif
