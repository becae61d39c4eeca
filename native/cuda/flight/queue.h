/* A queue and its submissions in flight. */
#ifndef SP_CUDA_QUEUE_H
#define SP_CUDA_QUEUE_H
#include "core/queue.h"
#include "cuda/device/device.h"

enum {
    SP_CUDA_RECENT = 256, /* launches that a queue can still describe */
    SP_CUDA_RECENT_NBYTES = 240,
    SP_CUDA_GRAPH_SLOTS = 4,
    SP_CUDA_FAULTS = 16 /* failed submissions whose text a queue keeps */
};

/* Page-locked memory for one piece of a transfer. */
struct sp_cuda_slot {
    struct sp_cuda_slot *next;
    void *host;
    uint64_t capacity; /* bytes taken from the page-locked pool */
    /* recorded after the piece's copy over the bus; NULL: the flight's end covers it */
    void *event;
    void *out;         /* destination of a download's piece; NULL: an upload, or a failure */
    uint64_t nbytes;
};

/* A submission with an event for its end. */
struct sp_cuda_flight {
    struct sp_cuda_flight *next;
    uint64_t value;
    void *start, *end; /* events; `start` on timing queues only */
    int mark;          /* covers launches up to `value`, which have no event of their own */
    int rc;            /* error that stopped its submission */
    uint32_t ncalls;   /* calls that the driver has accepted */
    uint64_t submitted_ns;
    void *staging; /* page-locked, for copies whose ranges overlap */
    uint64_t staging_nbytes;
    struct sp_cuda_slot *slots, *last; /* of a transfer, oldest first */
    /* bytes of an open download that are not yet given to the driver */
    uint64_t rest_nbytes;
    uint64_t rest_src;
    char *rest_out;
    void **stamps; /* events of timestamp records, in order */
    uint32_t nstamps;
    size_t nbytes;
    _Alignas(16) unsigned char records[];
};

/* A launch without a flight. */
struct sp_cuda_recent {
    uint64_t value;
    uint32_t nbytes; /* of the record; if it exceeds the room, only the head is kept */
    _Alignas(8) unsigned char record[SP_CUDA_RECENT_NBYTES];
};

/* The driver's text about a failed submission. */
struct sp_cuda_fault {
    uint64_t value;
    char words[304];
};

/* A command list as a graph, with the records that its nodes have now. */
struct sp_cuda_graph {
    uint64_t seen;  /* the queue's count at its last submission */
    uint32_t times; /* number of its submissions */
    size_t nbytes;
    unsigned char *records;
    void *graph, *exec; /* NULL: not made yet */
    void **nodes;       /* of the dispatches, in order; NULL: a dispatch of no groups */
    uint64_t *serials;  /* serial numbers of their kernels */
};

struct sp_cuda_queue {
    struct sp_queue q;
    struct sp_cuda *dev;
    void *stream;
    uint64_t memory_turn; /* the queue's stream has waited for zeroing up to this value */
    _Atomic uint64_t reached;
    _Atomic uint64_t good; /* values above it were lost with the device; UINT64_MAX: not lost */
    uint64_t marked;       /* newest value that a flight covers */
    uint64_t asked;        /* newest value when the stream was last found busy without a flight for it; or 0 */
    uint64_t refused_ns;   /* time since which the driver has returned only errors; 0: it has not */
    int timing;
    struct sp_cuda_flight *head, *tail;
    void *up, *down; /* streams for transfers, made on first use */
    struct sp_cuda_flight *open; /* the last flight, if it is a download whose pieces still arrive */
    void **idle[2];  /* pool of free events: without times, with times */
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

/* No download is open any more. */
static inline void sp_cuda_not_open(struct sp_cuda_queue *q)
{
    if (q->open)
        atomic_fetch_sub(&q->dev->open_downloads, 1);
    q->open = NULL;
}
#endif
