/* The struct of a queue of the cuda device, and of its submissions in flight. */
#ifndef SP_CUDA_QUEUE_H
#define SP_CUDA_QUEUE_H
#include "core/queue.h"
#include "cuda/device/device.h"

enum {
    /* A queue keeps the records of this number of its newest launches, so that it can describe a
     * launch that is running. */
    SP_CUDA_RECENT = 256,
    SP_CUDA_RECENT_NBYTES = 240,
    SP_CUDA_GRAPH_SLOTS = 4,
    SP_CUDA_FAULTS = 16 /* number of failed submissions whose error texts a queue keeps */
};

/* Page-locked memory for one piece of a transfer. */
struct sp_cuda_slot {
    struct sp_cuda_slot *next;
    void *host;
    uint64_t capacity; /* size in bytes of the block from the page-locked pool */
    /* event after the piece's copy over the bus; NULL if the event `end` of the flight covers the
     * piece */
    void *event;
    /* address in the caller's memory for a piece of a download; NULL for an upload, or after a
     * failure */
    void *out;
    uint64_t nbytes;
};

/* A flight: a submission in flight that ends with an event. */
struct sp_cuda_flight {
    struct sp_cuda_flight *next;
    uint64_t value;
    void *start, *end; /* events; only timing queues have `start` */
    /* 1 if the flight is a mark (mark.h), 0 if it is a submission. A mark's event `end` shows the
     * end of all launches up to `value` that have no events of their own. */
    int mark;
    int rc;            /* error that stopped the submission; 0 if none did */
    /* number of calls that the driver has accepted; for a transfer also the calls that failed */
    uint32_t ncalls;
    uint64_t submitted_ns;
    void *staging; /* page-locked memory for copies whose ranges overlap */
    uint64_t staging_nbytes;
    struct sp_cuda_slot *slots, *last; /* slots of a transfer, oldest first */
    /* number of bytes of a download whose copy has not been submitted to the driver yet */
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
    /* size in bytes of the whole record; if that exceeds the size of `record`, `record` has only
     * its beginning */
    uint32_t nbytes;
    _Alignas(8) unsigned char record[SP_CUDA_RECENT_NBYTES];
};

/* The driver's error text about a failed submission. */
struct sp_cuda_fault {
    uint64_t value;
    char words[304];
};

/* A list of commands as a CUDA graph. `records` is a copy of the command records, with the
 * arguments of the latest submission. The graph's nodes have the same arguments. */
struct sp_cuda_graph {
    /* value of the queue's counter `submissions` when this graph was last submitted */
    uint64_t seen;
    uint32_t times; /* number of submissions of this list of commands */
    size_t nbytes;
    unsigned char *records;
    void *graph, *exec; /* CUgraph and its CUgraphExec; NULL until they are made */
    void **nodes;       /* one graph node for each dispatch; NULL for a dispatch of no groups */
    uint64_t *serials;  /* for each dispatch, its kernel's serial number */
};

struct sp_cuda_queue {
    struct sp_queue q;
    struct sp_cuda *dev;
    void *stream;
    /* Value of the device's counter `memory_turn` when this queue's stream was last made to wait
     * for the zeroing of new memory. */
    uint64_t memory_turn;
    _Atomic uint64_t reached;
    /* newest value that was reached before the device was lost; UINT64_MAX if the device is not
     * lost */
    _Atomic uint64_t good;
    /* newest timeline value for which there is an event: the event ends when the queue reaches that
     * value */
    uint64_t marked;
    /* 0 unless the last query of the stream found launches running that no event covers. Then this
     * is the timeline value of the newest submission at the time of that query. */
    uint64_t asked;
    /* time in ns from which on the driver has answered all queries with errors; 0 if its last
     * answer was no error */
    uint64_t refused_ns;
    int timing;
    struct sp_cuda_flight *head, *tail;
    void *up, *down; /* streams for uploads and for downloads; created on first use */
    /* the newest flight, if it is a download of which some pieces are not submitted to the driver
     * yet; else NULL */
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

/* Marks that the queue has no open download any more. A download is open while some of its pieces
 * are not submitted to the driver yet. */
static inline void sp_cuda_not_open(struct sp_cuda_queue *q)
{
    if (q->open)
        atomic_fetch_sub(&q->dev->open_downloads, 1);
    q->open = NULL;
}
#endif
