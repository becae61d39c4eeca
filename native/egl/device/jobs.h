/* The list of all jobs of an egl device, and the queues to which the jobs belong. */
#ifndef SP_EGL_JOBS_H
#define SP_EGL_JOBS_H
#include "device.h"
#include "core/queue.h"

struct sp_egl_queue {
    struct sp_queue common; /* uses the device's lock as its lock */
    struct sp_egl *dev;
    struct sp_timeline timeline;
};

/* A submission, as an entry of the device's list of jobs. */
struct sp_egl_job {
    _Atomic(struct sp_egl_job *) next;
    struct sp_egl_queue *q;
    uint64_t value;
    size_t nbytes;
    size_t capacity;
    int rc;
    uint32_t timed; /* 1 if the job measures its time by the queries `start` and `end` */
    /* 1 for a list of commands, which gets a fence of its own, so that a wait for the list waits
     * for no other job */
    uint32_t apart;
    uint32_t start, end;
    uint64_t start_ns, end_ns;
    _Alignas(16) unsigned char records[];
};

/* Waits while too many jobs are in flight. Returns 0, or -ETIMEDOUT after 0.1 s. */
int sp_egl_jobs_room(struct sp_egl *dev);
/* Returns a job with room for `nbytes` of records, or NULL if memory is short. The caller holds the
 * device's lock. */
struct sp_egl_job *sp_egl_job_take(struct sp_egl *dev, size_t nbytes);
/* Appends a job to the device's list of jobs. The caller holds the device's lock. */
void sp_egl_job_append(struct sp_egl *dev, struct sp_egl_job *job);
/* Publishes the end of all jobs up to `last`. Returns the number of queues that were freed. For
 * each freed queue the owner thread drops one reference to the device. */
uint64_t sp_egl_publish(struct sp_egl *dev, struct sp_egl_job *last);
/* Frees the queue if it has no references and no jobs in flight. Returns 1 if the queue was freed,
 * otherwise 0. The caller holds the device's lock. After a result of 1 the caller drops one
 * reference to the device. */
int sp_egl_queue_gone(struct sp_egl_queue *q);
#endif
