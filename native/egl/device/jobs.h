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

/* One submission on its way, in the one list. */
struct sp_egl_job {
    _Atomic(struct sp_egl_job *) next;
    struct sp_egl_queue *q;
    uint64_t value;
    size_t nbytes;
    size_t capacity;
    int rc;
    uint32_t timed; /* queries start and end are in use */
    uint32_t apart; /* a list of commands, which has a fence of its own: nobody who waits for it waits for another job */
    uint32_t start, end;
    uint64_t start_ns, end_ns;
    _Alignas(16) unsigned char records[];
};

int sp_egl_jobs_room(struct sp_egl *dev); /* waits while there are too many on their way: 0 or -ETIMEDOUT */
struct sp_egl_job *sp_egl_job_take(struct sp_egl *dev, size_t nbytes); /* caller locks; NULL: no memory */
void sp_egl_job_append(struct sp_egl *dev, struct sp_egl_job *job);    /* caller locks */
/* The jobs up to `last` have ended. Returns how many queues are gone: the owner lets go of the device once for each. */
uint64_t sp_egl_publish(struct sp_egl *dev, struct sp_egl_job *last);
/* Frees a queue that nothing refers to any more: 1 if it did. Caller locks, and lets go of the device afterwards. */
int sp_egl_queue_gone(struct sp_egl_queue *q);
#endif
