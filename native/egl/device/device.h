/* The egl device's own objects; nothing outside native/egl sees inside them.
 *
 * Who touches what: `lock` guards the list of jobs, the requests, the pool and the queues' ledgers. GL, and every field
 * marked "owner", belong to the owner thread alone. What the owner writes and what callers write while they launch lie on
 * cache lines of their own (`apart`): each line that goes back and forth costs a launch 40 ns or more. */
#ifndef SP_EGL_DEVICE_H
#define SP_EGL_DEVICE_H
#include "core/base.h"
#include "core/progress.h"
#include "core/queue.h"
#include "core/timeline.h"
#include "dl/egl.h"
#include "dl/gl.h"
#include "include/sp_egl.h"
#include "include/sp_extents.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SP_EGL_KERNEL_MAGIC = 0x47637073, /* "spcG" */
    SP_EGL_MAX_BUFFERS = 1 << 20,
    SP_EGL_BINDINGS = 96,
    SP_EGL_BATCHES = 16,     /* fences in flight */
    SP_EGL_CLASSES = 160,    /* sizes of pooled buffers */
    SP_EGL_JOB_NBYTES = 512, /* records that a recycled job has room for */
    SP_EGL_FAULT_TEXTS = 16,
    SP_EGL_APART = 64 /* bytes of a cache line */
};

enum sp_egl_state {
    SP_EGL_STARTING = 0,
    SP_EGL_RUNS = 1,
    SP_EGL_FAILED = 2,
    SP_EGL_ENDING = 3, /* takes no more requests */
    SP_EGL_GONE = 4    /* and has no context any more */
};

struct sp_egl_buffer {
    struct sp_egl_buffer *next; /* in the pool */
    uint32_t index;
    uint32_t name;
    uint32_t size_class;
    uint32_t memory; /* enum sp_egl_memory */
    uint64_t capacity;
    _Atomic uint64_t nbytes; /* what was asked for */
    _Atomic uint32_t live;
    void *mapping;        /* NULL where buffers cannot stay mapped */
    _Atomic(void *) shadow; /* then: what map() gave out, brought over by the owner around every use */
    int is_file;          /* the shadow is a mapped file */
    char apart[SP_EGL_APART];
    uint64_t touched;     /* owner: the job that last brought the shadow over */
    uint64_t used_since;  /* owner: the barrier after which a dispatch last used it */
};

struct sp_egl_scalar {
    uint32_t offset;
    uint32_t nbytes;
    uint32_t type; /* GL type of the uniform; 0: the shader does not use it */
    int32_t location;
    uint64_t value; /* owner: what it was last set to */
};

struct sp_egl_kernel {
    uint32_t magic;
    struct sp_egl *dev;
    struct sp_signature sig;
    struct sp_extents extents; /* of sig */
    uint32_t program;
    uint32_t blocks;
    uint32_t group_size[3];
    int32_t at_offset; /* location of sp_group_offset, -1: there is none */
    int32_t at_null;   /* of sp_null */
    uint32_t nscalars;
    uint32_t pointer_at[SP_MAX_ARGS]; /* offset of the k-th pointer in the arguments */
    uint8_t used[SP_MAX_ARGS];        /* the shader has a block at binding k */
    char apart[SP_EGL_APART];
    struct sp_egl_scalar scalars[SP_MAX_ARGS];
    uint32_t is_set;  /* owner: the uniforms hold `value` */
    uint32_t null;    /* owner: the value of sp_null */
    uint32_t offset[3]; /* owner: the value of sp_group_offset */
};

/* Does the owner sleep? A caller who only launches need not wake one that naps: it comes back within 0.2 ms. */
enum sp_egl_rest { SP_EGL_AWAKE = 0, SP_EGL_NAPS = 1, SP_EGL_SLEEPS = 2 };

/* One submission on its way, in the one list of jobs.c. */
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

struct sp_egl_stamp {
    struct sp_egl_stamp *next;
    uint32_t query;
    uint64_t slot;
};

/* Jobs between two fences: those after the previous batch's `last` up to this one's. */
struct sp_egl_batch {
    void *sync;
    struct sp_egl_job *last;
    struct sp_egl_stamp *stamps;
};

/* Something the owner does for a caller. The last of the two to let go frees it; `drop` undoes what was done for a
 * caller who has given up waiting. */
struct sp_egl_request {
    struct sp_egl_request *next;
    int (*run)(struct sp_egl *dev, struct sp_egl_request *r);
    void (*drop)(struct sp_egl *dev, struct sp_egl_request *r);
    _Atomic uint32_t fate; /* futex: see owner.c */
    _Atomic uint32_t holders;
    int rc;
};

struct sp_egl_queue {
    struct sp_queue common; /* its lock is the device's */
    struct sp_egl *dev;
    struct sp_timeline timeline;
};

struct sp_egl_fault_text {
    const struct sp_egl_queue *q;
    uint64_t value;
    char text[400];
};

struct sp_egl_binding {
    uint32_t name;
    uint64_t offset;
    uint64_t nbytes;
};

struct sp_egl {
    struct sp_device common;
    struct sp_egl_info info;
    int32_t index;
    _Atomic uint32_t refs; /* the handle, the owner, queues, kernels */
    _Atomic uint32_t state; /* futex: enum sp_egl_state */
    _Atomic uint32_t stop;
    pthread_t owner; /* joined by who ends it, detached when that takes too long */
    int start_rc;
    char start_why[1024];

    char apart_callers[SP_EGL_APART];
    pthread_mutex_t lock;
    int queues;
    int closing; /* the handle is closed: the last queue takes the context with it */
    struct sp_egl_job *oldest, *tail;
    uint64_t njobs; /* in the list */
    _Atomic int caller_core; /* on which the last launch or wait was */
    _Atomic uint64_t enqueued;
    struct sp_egl_request *requests, *last_request;

    char apart_owner[SP_EGL_APART];
    struct sp_egl_job *head;      /* lock; the owner alone changes it */
    struct sp_timeline published; /* counts jobs: who floods the device waits for it */
    _Atomic uint32_t rests;       /* enum sp_egl_rest */
    _Atomic int owner_core;       /* on which it last took jobs */

    char apart_seldom[SP_EGL_APART]; /* what the owner looks at again and again */
    _Atomic uint32_t has_requests;
    _Atomic uint32_t waiters; /* callers who wait for a value: no batch is held open for more */
    _Atomic uint32_t work;    /* futex on which the owner sleeps */

    char apart_lists[SP_EGL_APART];
    struct sp_egl_buffer *pool[SP_EGL_CLASSES][3];
    uint64_t pooled_nbytes;
    _Atomic(struct sp_egl_buffer *) *buffers;
    uint32_t nbuffers;
    struct sp_egl_buffer *unused; /* without GL storage */
    struct sp_egl_fault_text fault_texts[SP_EGL_FAULT_TEXTS];
    uint32_t nfault_texts;

    pthread_mutex_t log_lock;
    char log[8192];
    size_t log_used;

    /* owner */
    void *display, *context;
    struct sp_egl_job *last_run;
    _Atomic(struct sp_egl_job *) issued; /* the job that `running` tells of; read with the lock */
    struct sp_running running;
    uint64_t runs;
    char error[400]; /* the driver's words about the job that runs */
    struct sp_egl_batch batches[SP_EGL_BATCHES];
    uint32_t first_batch, nbatches, batch_jobs;
    uint64_t batch_start_ns;
    struct sp_egl_stamp *stamps;
    uint32_t program;
    uint32_t dirty; /* barriers owed to what a dispatch wrote */
    uint64_t barriers; /* how many there were between dispatches, and one */
    struct sp_egl_binding bound[SP_EGL_BINDINGS];
    uint32_t zeros;
    uint32_t *idle_queries;
    uint32_t nqueries, queries_capacity;
    int64_t clock_offset_ns; /* CLOCK_MONOTONIC - device clock */
    uint64_t clock_read_ns;
    struct sp_egl_buffer *touched[SP_EGL_BINDINGS];
    uint32_t ntouched;
    uint64_t reset_checked_ns;
};

static inline int sp_egl_is(const struct sp_egl *dev, uint32_t flag)
{
    return (dev->info.flags & flag) != 0;
}

/* device.c: the memory of a device outlives its context for as long as somebody refers to it. */
void sp_egl_hold(struct sp_egl *dev);
void sp_egl_let_go(struct sp_egl *dev);
int sp_egl_end(struct sp_egl *dev, uint64_t timeout_ns); /* stops the owner: 0 or -ETIMEDOUT */

/* context.c: everything about a context but what runs on it. */
int sp_egl_context_make(struct sp_egl *dev, char *why, size_t why_nbytes);
void sp_egl_context_drop(struct sp_egl *dev);
int sp_egl_context_lost(struct sp_egl *dev);

/* messages.c */
void sp_egl_messages_start(struct sp_egl *dev, int khr_suffix);
void sp_egl_say(struct sp_egl *dev, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the driver complained of since the last call; NULL if nothing. GL_NO_ERROR is asked for when `ask`. */
const char *sp_egl_complaint(struct sp_egl *dev, int ask);

/* owner.c */
void *sp_egl_owner(void *arg);
void sp_egl_wake(struct sp_egl *dev);
void sp_egl_wake_sleeper(struct sp_egl *dev); /* leaves one alone that naps */
/* Has a request done: its result, -ENODEV (there is no owner), -ETIMEDOUT (it may be done later all the same).
 * Timeout 0 does not wait. `keep` leaves the request to be looked at until `end`. */
int sp_egl_request(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns);
int sp_egl_request_keep(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns);
void sp_egl_request_end(struct sp_egl_request *r);
void sp_egl_drain(struct sp_egl *dev); /* owner: waits until everything issued has ended, or the context is lost */

/* buffer.c */
struct sp_egl_buffer *sp_egl_find(const struct sp_egl *dev, uint64_t address, uint64_t nbytes, uint64_t *offset,
                                  int *rc);
void sp_egl_buffers_drop(struct sp_egl *dev);
void sp_egl_read(struct sp_egl *dev, struct sp_egl_buffer *b, uint64_t offset, void *out, uint64_t nbytes);
void sp_egl_write(struct sp_egl *dev, struct sp_egl_buffer *b, uint64_t offset, const void *data, uint64_t nbytes);

/* shadow.c: before a job uses a buffer, and after the job */
void sp_egl_touch(struct sp_egl *dev, struct sp_egl_buffer *b);
void sp_egl_untouch(struct sp_egl *dev);
void sp_egl_shadow_drop(struct sp_egl_buffer *b);

/* check.c */
int sp_egl_check_dispatch(const struct sp_egl *dev, const void *record, size_t nbytes);

/* replay.c */
void sp_egl_run_job(struct sp_egl *dev, struct sp_egl_job *job, uint64_t now_ns);

/* clock.c */
void sp_egl_clock_start(struct sp_egl *dev);
uint32_t sp_egl_query(struct sp_egl *dev); /* a TIMESTAMP query, issued; 0 when there is no clock */
uint64_t sp_egl_query_ns(struct sp_egl *dev, uint32_t query); /* its CLOCK_MONOTONIC time; gives the query back */

/* jobs.c */
int sp_egl_jobs_room(struct sp_egl *dev); /* waits while there are too many on their way: 0 or -ETIMEDOUT */
struct sp_egl_job *sp_egl_job_take(struct sp_egl *dev, size_t nbytes); /* caller locks; NULL: no memory */
void sp_egl_job_append(struct sp_egl *dev, struct sp_egl_job *job);    /* caller locks */
void sp_egl_publish(struct sp_egl *dev, struct sp_egl_job *last);

/* queue.c: frees a queue that nothing refers to any more. Caller locks, and lets go of the device if it did. */
int sp_egl_queue_gone(struct sp_egl_queue *q);
#endif
