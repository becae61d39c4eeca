/* The struct of a queue of the cuda device, and of its submissions in flight. */
#ifndef SP_CUDA_QUEUE_H
#define SP_CUDA_QUEUE_H
#include "core/queue.h"
#include "cuda/device/device.h"

enum {
    /* number of the newest launches whose records a queue keeps, so that it can describe these
     * launches */
    SP_CUDA_RECENT = 256,
    SP_CUDA_RECENT_NBYTES = 240,
    SP_CUDA_GRAPH_SLOTS = 4,
    SP_CUDA_FAULTS = 16 /* number of failed submissions whose error texts a queue keeps */
};

/* Page-locked memory for one piece of a transfer. */
struct sp_cuda_slot {
    struct sp_cuda_slot *next;
    void *host;
    uint64_t capacity; /* bytes taken from the page-locked pool */
    /* event after the piece's copy over the bus; NULL if the event `end` of the flight covers the
     * piece */
    void *event;
    void *out;         /* target of a piece of a download; NULL for an upload, or after a failure */
    uint64_t nbytes;
};

/* A flight: a submission in flight that ends with an event. */
struct sp_cuda_flight {
    struct sp_cuda_flight *next;
    uint64_t value;
    void *start, *end; /* events; only timing queues have `start` */
    /* 1: the flight is a mark (mark.h), not a submission: its event `end` covers all launches up to
     * `value`, which have no events of their own */
    int mark;
    int rc;            /* error that stopped the submission; 0 if none did */
    /* number of calls that the driver has accepted; for a transfer also the calls that failed */
    uint32_t ncalls;
    uint64_t submitted_ns;
    void *staging; /* page-locked memory for copies whose ranges overlap */
    uint64_t staging_nbytes;
    struct sp_cuda_slot *slots, *last; /* slots of a transfer, oldest first */
    /* number of bytes of a download that the driver has not been given yet */
    uint64_t rest_nbytes;
    uint64_t rest_src;
    char *rest_out;
    void **stamps; /* events of the timestamp records, in order */
    uint32_t nstamps;
    size_t nbytes;
    _Alignas(16) unsigned char records[];
};

/* A recent launch that has no flight. */
struct sp_cuda_recent {
    uint64_t value;
    /* bytes of the whole record; `record` keeps only the head of a record that does not fit */
    uint32_t nbytes;
    _Alignas(8) unsigned char record[SP_CUDA_RECENT_NBYTES];
};

/* The driver's error text about a failed submission. */
struct sp_cuda_fault {
    uint64_t value;
    char words[304];
};

/* A list of commands as a CUDA graph. `records` is a copy of the command records. It has the
 * arguments of the latest submission, which the graph's nodes have too. */
struct sp_cuda_graph {
    /* value of the queue's counter `submissions` when this graph was last submitted */
    uint64_t seen;
    uint32_t times; /* how often this list was submitted */
    size_t nbytes;
    unsigned char *records;
    void *graph, *exec; /* NULL until the graph is made */
    void **nodes;       /* nodes of the dispatches, in order; NULL for a dispatch of no groups */
    uint64_t *serials;  /* serial numbers of the kernels of `nodes` */
};

struct sp_cuda_queue {
    struct sp_queue q;
    struct sp_cuda *dev;
    void *stream;
    /* The device's counter `memory_turn` advances when new memory is zeroed. This is its value when
     * the queue's stream was last made to wait for that zeroing. */
    uint64_t memory_turn;
    _Atomic uint64_t reached;
    /* newest value that was reached before the device was lost; UINT64_MAX if the device is not
     * lost */
    _Atomic uint64_t good;
    /* newest timeline value for which there is an event: the event ends when the queue reaches that
     * value */
    uint64_t marked;
    /* If the last query found the stream busy with launches that no event covers: the newest
     * submitted value at that time. Otherwise 0. */
    uint64_t asked;
    /* time in ns since which the driver has returned only errors; 0 if its last answer was no
     * error */
    uint64_t refused_ns;
    int timing;
    struct sp_cuda_flight *head, *tail;
    void *up, *down; /* streams for uploads and for downloads; created on first use */
    /* the newest flight, if it is a download of which the driver has not been given all pieces yet;
     * else NULL */
    struct sp_cuda_flight *open;
    void **idle[2];  /* pools of free events: [0] without times, [1] with times */
    uint32_t nidle[2], most_idle[2];
    struct sp_cuda_graph graphs[SP_CUDA_GRAPH_SLOTS];
    uint64_t submissions;
    struct sp_cuda_fault *faults; /* ring of the newest SP_CUDA_FAULTS error texts */
    uint32_t nfaults;
    struct sp_cuda_recent *recent;
};

static inline uint64_t sp_cuda_reached_so_far(const struct sp_cuda_queue *q)
{
    return atomic_load(&q->reached);
}

/* Marks that the queue has no open download any more. A download is open until the driver has been
 * given all its pieces. */
static inline void sp_cuda_not_open(struct sp_cuda_queue *q)
{
    if (q->open)
        atomic_fetch_sub(&q->dev->open_downloads, 1);
    q->open = NULL;
}
#endif
