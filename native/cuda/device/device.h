/* The cuda device's own objects; nothing outside native/cuda sees inside them.
 *
 * Locks, in this order: a queue's, the device's, that of why it was lost. Work goes to the driver under the queue's lock, so that the values of a
 * queue follow the order of its stream. */
#ifndef SP_CUDA_DEVICE_H
#define SP_CUDA_DEVICE_H
#include "core/base.h"
#include "core/queue.h"
#include "core/timeline.h"
#include "include/sp_cuda.h"
#include "include/sp_extents.h"
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SP_CUDA_KERNEL_MAGIC = 0x43637073, /* "spcC" */
    SP_CUDA_CLASSES = 64,              /* sizes of pooled page-locked memory: powers of two */
    SP_CUDA_RECENT = 256,              /* launches that a queue can still describe */
    SP_CUDA_RECENT_NBYTES = 240,
    SP_CUDA_GRAPH_SLOTS = 4,
    SP_CUDA_FAULTS = 16 /* failed submissions whose words a queue keeps */
};

struct sp_cuda_memory {
    struct sp_cuda *dev;
    _Atomic uint32_t refs;
    uint32_t kind;
    uint32_t flags; /* enum sp_cuda_memory_flag */
    int fd;         /* of SHARED memory, or of ALONE memory that was exported, else -1 */
    uint64_t address;
    uint64_t nbytes;
    uint64_t pinned_nbytes; /* what the pool of page-locked memory gave */
    void *host;      /* NULL: the host does not reach it */
    struct sp_cuda_memory *next, **link; /* in the device's list of what the host reaches */
};

enum sp_cuda_memory_flag {
    SP_CUDA_POOLED = 1,     /* from the stream-ordered pool */
    SP_CUDA_REGISTERED = 2, /* host memory that was not allocated here */
    SP_CUDA_ADOPTED = 4,
    SP_CUDA_IMPORTED = 8    /* another process's */
};

/* Page-locked memory that nobody uses: its own first bytes are the list. */
struct sp_cuda_pinned {
    struct sp_cuda_pinned *next;
};

struct sp_cuda {
    struct sp_device common;
    struct sp_cuda_info info;
    int handle; /* CUdevice */
    void *context;
    _Atomic uint32_t refs; /* the owner, queues, kernels, memory */
    _Atomic int reset; /* its context was: nothing that belonged to it may be named to the driver any more */
    struct sp_cuda *next; /* in the list of those that are open */
    _Atomic uint32_t graph_nodes;
    _Atomic uint64_t replayed, graph_builds, graph_launches, graph_updates;
    _Atomic uint32_t open_downloads; /* of its queues */
    _Atomic uint64_t memory_turn; /* grows when memory is zeroed: queues wait for memory_event before they use it */

    pthread_mutex_t why_lock; /* the innermost */
    char why_lost[400];

    pthread_mutex_t modules_lock; /* only why_lock is taken under it; held while the driver compiles */
    struct sp_cuda_module *modules;

    pthread_mutex_t lock; /* guards what follows */
    void *memory_stream, *memory_event;
    void *pool; /* the driver's stream-ordered one; NULL: there is none */
    struct sp_cuda_pinned *pinned[SP_CUDA_CLASSES];
    uint64_t pinned_nbytes; /* in there */
    struct sp_cuda_memory *hosts;
    uint32_t peers; /* bit of each ordinal whose memory this device reaches by now; below 32 */
    void *anchor;   /* an event that has ended, at anchor_ns of CLOCK_MONOTONIC */
    uint64_t anchor_ns;
};

struct sp_cuda_kernel {
    uint32_t magic;
    struct sp_cuda *dev;
    void *function;
    struct sp_cuda_module *module;
    struct sp_cuda_shape shape;
    uint32_t most_shared; /* that a launch may add */
    uint64_t serial;      /* no other kernel of this process has it */
    struct sp_signature sig;
    struct sp_extents extents; /* of sig */
    char name[64];
};

/* Page-locked memory for one piece of a transfer. */
struct sp_cuda_slot {
    struct sp_cuda_slot *next;
    void *host;
    uint64_t capacity; /* what the pool of page-locked memory gave */
    void *event;       /* behind the piece's copy over the bus; NULL: the flight's end tells */
    void *out;         /* where a download's piece goes; NULL: of an upload, or it went wrong */
    uint64_t nbytes;
};

/* What was submitted and has an event that tells its end. */
struct sp_cuda_flight {
    struct sp_cuda_flight *next;
    uint64_t value;
    void *start, *end; /* events; `start` of timing queues alone */
    int mark;          /* of launches up to `value`, which have no event of their own */
    int rc;            /* it could not be handed over to its end */
    uint32_t ncalls;   /* that the driver has taken */
    uint64_t submitted_ns;
    void *staging; /* page-locked, of copies between places that overlap */
    uint64_t staging_nbytes;
    struct sp_cuda_slot *slots, *last; /* of a transfer, oldest first */
    uint64_t rest_nbytes;              /* of an open download: what the driver has not been told of yet */
    uint64_t rest_src;
    char *rest_out;
    void **stamps; /* events of timestamp records, in their order */
    uint32_t nstamps;
    size_t nbytes;
    _Alignas(16) unsigned char records[];
};

/* A launch that has no flight. */
struct sp_cuda_recent {
    uint64_t value;
    uint32_t nbytes; /* of the record; more than there is room for: the head alone is kept */
    _Alignas(8) unsigned char record[SP_CUDA_RECENT_NBYTES];
};

/* What the driver said of a submission that failed. */
struct sp_cuda_fault {
    uint64_t value;
    char words[304];
};

/* A list of commands as a graph: the records that it was made of, as they are now. */
struct sp_cuda_graph {
    uint64_t seen;  /* when it was last submitted, by the queue's count */
    uint32_t times; /* that it was submitted */
    size_t nbytes;
    unsigned char *records;
    void *graph, *exec; /* NULL: not made yet */
    void **nodes;       /* of the dispatches, in their order; NULL: one of no groups */
    uint64_t *serials;  /* of their kernels */
};

struct sp_cuda_queue {
    struct sp_queue q;
    struct sp_cuda *dev;
    void *stream;
    uint64_t memory_turn; /* up to which its stream has waited */
    _Atomic uint64_t reached;
    _Atomic uint64_t good; /* values above it were lost with the device; UINT64_MAX while it is not */
    uint64_t marked;       /* the newest value that a flight covers */
    uint64_t asked;        /* the newest value when the stream last said that it was busy, with no flight in it; or 0 */
    uint64_t refused_ns;   /* since when the driver has answered every question with an error; 0: it has not */
    int timing;
    struct sp_cuda_flight *head, *tail;
    void *up, *down; /* streams for transfers, made when first needed */
    struct sp_cuda_flight *open; /* the last flight, when it is a download that goes on as its pieces come in */
    void **idle[2];  /* events that nobody uses: without times, with times */
    uint32_t nidle[2], most_idle[2];
    struct sp_cuda_graph graphs[SP_CUDA_GRAPH_SLOTS];
    uint64_t submissions;
    struct sp_cuda_fault *faults; /* the newest SP_CUDA_FAULTS */
    uint32_t nfaults;
    struct sp_cuda_recent *recent;
};

static inline uint64_t sp_cuda_reached_so_far(const struct sp_cuda_queue *q)
{
    return atomic_load(&q->reached);
}

/* device.c */
static inline int sp_cuda_usable(const struct sp_cuda *dev)
{
    return sp_device_usable(&dev->common);
}
void sp_cuda_ref(struct sp_cuda *dev);
void sp_cuda_unref(struct sp_cuda *dev);
/* lost.c. The device is gone: `why` in words. Once. */
void sp_cuda_lose(struct sp_cuda *dev, const char *why);
/* Its context is no more, nor what belonged to it: another library did that. */
void sp_cuda_reset_by_others(struct sp_cuda *dev);
/* As sp_cu_rc; an answer after which nothing works any more loses the device. */
int sp_cuda_rc(struct sp_cuda *dev, const char *call, int result);
#define SP_CUDA_RC(dev, name, ...) sp_cuda_rc(dev, #name, sp_##name(__VA_ARGS__))
/* -ENODEV, and for sp_cuda_why the words of how the device was lost; 0 while it is not. */
int sp_cuda_gone(struct sp_cuda *dev);

/* context.c */
/* Asks the driver, makes the device's context current and relaxes the thread: before every call that goes by the current
 * context, but for those that are safe. */
int sp_cuda_enter(struct sp_cuda *dev);
/* The primary context was released: if that was its end, it is not left current in this thread. */
void sp_cuda_released(const struct sp_cuda *dev);

/* module.c: the module of an image, loaded unless another kernel of the device has it. The context is current; `why` receives
 * the driver's words and the compiler's log. */
struct sp_cuda_module;
int sp_cuda_module_take(struct sp_cuda *dev, const void *image, size_t nbytes, char *why, size_t why_nbytes,
                        struct sp_cuda_module **out);
void *sp_cuda_module_handle(const struct sp_cuda_module *m);
/* One kernel less. The last one unloads the module. */
void sp_cuda_module_give(struct sp_cuda *dev, struct sp_cuda_module *m);

/* pinned.c: page-locked memory, a power of two from 4 KiB on. */
int sp_cuda_pinned_take(struct sp_cuda *dev, uint64_t nbytes, void **host, uint64_t *got);
void sp_cuda_pinned_give(struct sp_cuda *dev, void *host, uint64_t got);
void sp_cuda_pinned_drop(struct sp_cuda *dev); /* caller locks, or is the last */

/* memory.c: what the stream-ordered pool keeps goes back to the driver */
void sp_cuda_empty_pool(struct sp_cuda *dev);
/* The address of `nbytes` bytes at `address` for the host, NULL where it does not reach them */
void *sp_cuda_reach(struct sp_cuda *dev, uint64_t address, uint64_t nbytes);

/* ipc.c: the GPU's memory in other processes. A new file's descriptor or -errno. */
int sp_cuda_ipc_export(struct sp_cuda_memory *m);
/* The memory goes: those who have the file are told. */
void sp_cuda_ipc_end(const struct sp_cuda_memory *m);
int sp_cuda_ipc_is(int fd);
/* The context is current; cuIpcCloseMemHandle ends it. -ENXIO: words say why not. */
int sp_cuda_ipc_open(struct sp_cuda *dev, int fd, uint64_t nbytes, uint64_t *address);

/* check.c */
int sp_cuda_check_dispatch(const struct sp_cuda *dev, const void *record, size_t nbytes);

/* replay.c: callers hold the queue's lock. The launch: a CUresult. */
int sp_cuda_dispatch(struct sp_cuda_queue *q, const struct sp_cmd_dispatch *d);
int sp_cuda_overlaps(const struct sp_cmd_copy *c);
/* Bytes from a fill's start to the first address that is a multiple of its element: the driver fills elements only there (CUDA
 * Driver API, cuMemsetD16Async and cuMemsetD32Async). */
uint32_t sp_cuda_fill_ahead(const struct sp_cmd_fill *f);
/* All records, one after the other: 0 or -errno. */
int sp_cuda_replay(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* The stream waits until memory has been zeroed that it has not waited for yet. */
int sp_cuda_order_memory(struct sp_cuda_queue *q);

/* graph.c: runs the records as a graph. 1: done, or failed with `*rc`; 0: they are not one, or not yet. */
int sp_cuda_run_graph(struct sp_cuda_queue *q, struct sp_cuda_flight *f, int *rc);
void sp_cuda_graphs_drop(struct sp_cuda_queue *q);

static inline int sp_cuda_near(struct sp_cuda *dev)
{
    return sp_cuda_current == dev->context ? 0 : sp_cuda_enter(dev);
}

/* events.c: events of a queue, used again; timing: with times. 0 or -errno. */
int sp_cuda_event_take(struct sp_cuda_queue *q, int timing, void **event);
void sp_cuda_event_give(struct sp_cuda_queue *q, int timing, void *event);
void sp_cuda_events_drop(struct sp_cuda_queue *q);
/* Stream `later` waits for all of `sooner`: 0 or -errno. */
int sp_cuda_chain(struct sp_cuda_queue *q, void *sooner, void *later);
/* CLOCK_MONOTONIC at which an event with times ended. May take `*event` and give another for it. */
uint64_t sp_cuda_event_ns(struct sp_cuda *dev, void **event);

/* progress.c; callers hold the queue's lock */
void sp_cuda_progress(struct sp_cuda_queue *q);
/* 1: the driver says so; 0: not yet, or it gave an error, which `sp_cuda_failed` has been told of. */
int sp_cuda_ended(struct sp_cuda_queue *q, void *event);
/* Who waits for what was launched so far asks the stream. Before more comes, it gets an event, so that who launches on and
 * on does not keep others waiting. */
void sp_cuda_mark_asked(struct sp_cuda_queue *q);
/* An event behind what was launched so far. */
void sp_cuda_mark(struct sp_cuda_queue *q);

/* flight.c; callers hold the queue's lock */
struct sp_cuda_flight *sp_cuda_flight_new(const void *records, size_t nbytes);
/* Gives back what it holds, and frees it. */
void sp_cuda_flight_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* The same when the driver may still use its page-locked memory, which is left alone then. */
void sp_cuda_flight_abandon(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* Keeps this thread's words about a submission that failed. */
void sp_cuda_keep_words(struct sp_cuda_queue *q, uint64_t value);
/* -errno for a CUresult; one that says the device is gone loses it, with the names of what ran. */
int sp_cuda_failed(struct sp_cuda_queue *q, const char *call, int result);
#define SP_CUDA_Q(q, name, ...) sp_cuda_failed(q, #name, sp_##name(__VA_ARGS__))
/* The start of a submission of a timing queue, the end of any: 0 or -errno. */
int sp_cuda_flight_begin(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
int64_t sp_cuda_flight_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc);
/* Its value: from now on it has been submitted. */
int64_t sp_cuda_flight_list(struct sp_cuda_queue *q, struct sp_cuda_flight *f);

/* staging.c: slots of a flight; callers hold the queue's lock */
enum {
    SP_CUDA_PIECE_NBYTES = 4 << 20, /* over the bus in 0.1 ms and more: a piece's calls, some microseconds, do not show */
    SP_CUDA_SLOTS = 3 /* that one transfer keeps going: one is copied by the host, one by the device, one waits */
};
/* A new last slot; 0 or -errno. */
int sp_cuda_slot_add(struct sp_cuda_queue *q, struct sp_cuda_flight *f, uint64_t nbytes, struct sp_cuda_slot **out);
/* The oldest slot becomes the last. */
struct sp_cuda_slot *sp_cuda_slot_turn(struct sp_cuda_flight *f);
/* The oldest slot goes. */
void sp_cuda_slot_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* An event behind what the stream was given for this slot: 0 or -errno. */
int sp_cuda_slot_mark(struct sp_cuda_queue *q, struct sp_cuda_slot *slot, void *stream);
/* A stream of the queue's for transfers and memory of the GPU between it and the queue's own: 1; 0: that does it all. The
 * memory is there in the order of stream `order`, NULL: the transfers' own. */
int sp_cuda_between(struct sp_cuda_queue *q, uint64_t nbytes, void **stream, void *order, uint64_t *address);
/* A flight for a transfer, its record for those who ask what runs, and its beginning handed over. */
int sp_cuda_transfer_begin(struct sp_cuda_queue *q, uint64_t dst, uint64_t src, uint64_t nbytes, struct sp_cuda_flight **out);
/* Submits it; `f` is NULL when there was no memory for it. */
int64_t sp_cuda_transfer_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc);

/* download.c; callers hold the queue's lock */
/* Takes the pieces of a download that have come in, and sends for more: 1: all are here, or the end will tell; 0. */
int sp_cuda_land(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
/* All of the open download is with the driver then, as what is submitted next comes behind it. */
void sp_cuda_settle(struct sp_cuda_queue *q);
/* The same of the queues that the records wait for; the caller has no queue's lock. */
void sp_cuda_settle_others(struct sp_cuda_queue *q, const void *records, size_t nbytes);
/* No download is open any more. */
static inline void sp_cuda_not_open(struct sp_cuda_queue *q)
{
    if (q->open)
        atomic_fetch_sub(&q->dev->open_downloads, 1);
    q->open = NULL;
}
static inline int64_t sp_cuda_queue_leave(struct sp_cuda_queue *q, int64_t rc)
{
    sp_cuda_leave();
    return sp_queue_leave(&q->q, rc);
}
/* As sp_queue_enter, for whoever submits; sp_cuda_queue_leave ends it. */
static inline int sp_cuda_queue_enter(struct sp_cuda_queue *q, uint64_t epoch)
{
    int rc = sp_queue_enter(&q->q, epoch);
    if (__builtin_expect(rc == 0 && (q->asked != 0 || q->open != NULL), 0)) {
        if (q->asked)
            sp_cuda_mark_asked(q);
        if (q->open)
            sp_cuda_settle(q);
        if (atomic_load(&q->dev->common.lost))
            rc = (int)sp_cuda_queue_leave(q, -ENODEV);
    }
    return rc;
}

/* queue.c */
void sp_cuda_queue_unref(struct sp_queue *common);
#endif
