/* The one list of jobs of an egl device, and the queues that jobs belong to. */
#ifndef SP_EGL_JOBS_H
#define SP_EGL_JOBS_H
#include "device.h"
#include "core/queue.h"

struct sp_egl_queue {
    struct sp_queue common; /* its lock is the device's */
    struct sp_egl *dev;
    struct sp_timeline timeline;
};

/* A submission in flight, in the one list. */
struct sp_egl_job {
    _Atomic(struct sp_egl_job *) next;
    struct sp_egl_queue *q;
    uint64_t value;
    size_t nbytes;
    size_t capacity;
    int rc;
    uint32_t timed; /* queries start and end are in use */
    uint32_t apart; /* a command list, which gets its own fence: a wait for it waits for no other job */
    uint32_t start, end;
    uint64_t start_ns, end_ns;
    _Alignas(16) unsigned char records[];
};

int sp_egl_jobs_room(struct sp_egl *dev); /* waits while too many jobs are in flight: 0 or -ETIMEDOUT */
/* caller locks; NULL: out of memory */
struct sp_egl_job *sp_egl_job_take(struct sp_egl *dev, size_t nbytes);
void sp_egl_job_append(struct sp_egl *dev, struct sp_egl_job *job);    /* caller locks */
/* Publishes the end of the jobs up to `last`. Returns the number of freed queues: the owner drops
 * one device reference for each. */
uint64_t sp_egl_publish(struct sp_egl *dev, struct sp_egl_job *last);
/* Frees a queue without references: 1 if it did. Caller locks, and drops the device reference
 * afterwards. */
int sp_egl_queue_gone(struct sp_egl_queue *q);
#endif
