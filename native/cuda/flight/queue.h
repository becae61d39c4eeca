/* A queue and its submissions on their way. */
#ifndef SP_CUDA_QUEUE_H
#define SP_CUDA_QUEUE_H
#include "core/queue.h"
#include "cuda/device/device.h"

enum {
    SP_CUDA_RECENT = 256, /* launches that a queue can still describe */
    SP_CUDA_RECENT_NBYTES = 240,
    SP_CUDA_GRAPH_SLOTS = 4,
    SP_CUDA_FAULTS = 16 /* failed submissions whose words a queue keeps */
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

/* No download is open any more. */
static inline void sp_cuda_not_open(struct sp_cuda_queue *q)
{
    if (q->open)
        atomic_fetch_sub(&q->dev->open_downloads, 1);
    q->open = NULL;
}
#endif
