/* The struct of the egl device, private to native/egl.
 *
 * `lock` guards the list of jobs, the requests, the pool of unused buffers, and each queue's ledger
 * (times and errors of its jobs). Only the owner thread calls GL. Only it uses the members from
 * `display` on, except `issued` and `running`. Callers write one set of members, the owner thread
 * another. The members `apart_...` keep these sets in separate cache lines, because each line that
 * moves between cores costs a launch 40 ns or more. */
#ifndef SP_EGL_DEVICE_H
#define SP_EGL_DEVICE_H
#include "core/progress.h"
#include "core/device.h"
#include "core/timeline.h"
#include "include/sp_egl.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SP_EGL_MAX_BUFFERS = 1 << 20,
    SP_EGL_BINDINGS = 96,
    SP_EGL_BATCHES = 16,     /* largest number of batches (one fence each) in flight */
    SP_EGL_CLASSES = 160,    /* number of size classes of pooled buffers */
    SP_EGL_FAULT_TEXTS = 16,
    SP_EGL_APART = 64 /* bytes of a cache line */
};

enum sp_egl_state {
    SP_EGL_STARTING = 0,
    SP_EGL_RUNS = 1,
    SP_EGL_FAILED = 2,
    SP_EGL_ENDING = 3, /* the owner thread accepts no more requests */
    SP_EGL_GONE = 4    /* the owner thread has destroyed the context */
};

/* Sleep state of the owner thread. A napping owner thread wakes by itself within 0.2 ms. So a
 * caller that only launches need not wake it. */
enum sp_egl_rest { SP_EGL_AWAKE = 0, SP_EGL_NAPS = 1, SP_EGL_SLEEPS = 2 };

struct sp_egl_buffer;
struct sp_egl_job;
struct sp_egl_queue;
struct sp_egl_request;

struct sp_egl_stamp {
    struct sp_egl_stamp *next;
    uint32_t query;
    uint64_t slot;
};

/* The jobs between two fences: the jobs after `last` of the previous batch, up to and including
 * this `last`. */
struct sp_egl_batch {
    void *sync;
    struct sp_egl_job *last;
    struct sp_egl_stamp *stamps;
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
    _Atomic uint32_t refs; /* references: the caller's handle, the owner thread, queues, kernels */
    _Atomic uint32_t callers; /* number of calls between sp_egl_enter and sp_egl_leave */
    _Atomic uint32_t state; /* an enum sp_egl_state, and a futex */
    _Atomic uint32_t stop;
    /* Handle of the owner thread. The first call of sp_egl_end joins that thread, or detaches it if
     * it does not end within the timeout of the call. */
    pthread_t owner;
    int start_rc;
    char start_why[1024];

    char apart_callers[SP_EGL_APART];
    pthread_mutex_t lock;
    /* Open queues, and host addresses that sp_egl_map gave. If the device is closed, the context
     * ends when this becomes 0. */
    int holders;
    int closing; /* 1 once the device is closed: it then gets no more holders */
    struct sp_egl_job *oldest, *tail;
    uint64_t njobs; /* number of jobs in the list, finished ones included */
    _Atomic int caller_core; /* CPU core of the caller's last launch or wait */
    _Atomic uint64_t enqueued;
    struct sp_egl_request *requests, *last_request;

    char apart_owner[SP_EGL_APART];
    /* newest job whose end was published: the timeline of its queue has the job's value. Only the
     * owner thread changes this member, under the device's lock. */
    struct sp_egl_job *head;
    /* Number of finished jobs whose end has been published to their queues. While too many jobs are
     * in flight, a launch waits until this number has grown. */
    struct sp_timeline published;
    _Atomic uint32_t rests;       /* an enum sp_egl_rest */
    _Atomic int owner_core;       /* CPU core on which the owner thread last took jobs */

    /* puts the members below, which the owner thread polls, in another cache line than those above,
     * which it writes */
    char apart_seldom[SP_EGL_APART];
    _Atomic uint32_t has_requests;
    /* Number of callers that wait for a timeline value. While there are any, the owner thread ends
     * the current batch with a fence at once. */
    _Atomic uint32_t waiters;
    _Atomic uint32_t work;    /* futex on which the owner thread sleeps */

    char apart_lists[SP_EGL_APART];
    struct sp_egl_buffer *pool[SP_EGL_CLASSES][3];
    uint64_t pooled_nbytes;
    _Atomic(struct sp_egl_buffer *) *buffers;
    uint32_t nbuffers;
    struct sp_egl_buffer *unused; /* list of unused buffer structs, which have no GL storage */
    struct sp_egl_fault_text fault_texts[SP_EGL_FAULT_TEXTS];
    uint32_t nfault_texts;

    pthread_mutex_t log_lock;
    char log[8192];
    size_t log_used;

    /* Only the owner thread accesses the members from `display` on. Other threads may read `issued`
     * and `running` too. */
    void *display, *context;
    struct sp_egl_job *last_run;
    /* the job whose progress is in `running`; other threads read this member under the device's
     * lock */
    _Atomic(struct sp_egl_job *) issued;
    struct sp_running running;
    uint64_t runs;
    char error[400]; /* the driver's error text about the running job */
    struct sp_egl_batch batches[SP_EGL_BATCHES];
    uint32_t first_batch, nbatches, batch_jobs;
    uint64_t batch_start_ns;
    struct sp_egl_stamp *stamps;
    uint32_t program;
    uint32_t dirty; /* bits of the memory barrier that is still due for writes of dispatches */
    uint64_t barriers; /* 1 + number of memory barriers that were issued between dispatches */
    struct sp_egl_binding bound[SP_EGL_BINDINGS];
    uint32_t zeros;
    uint32_t *idle_queries;
    uint32_t nqueries, queries_capacity;
    int64_t clock_offset_ns; /* CLOCK_MONOTONIC minus the device's clock, in ns */
    uint64_t clock_read_ns;
    struct sp_egl_buffer *touched[SP_EGL_BINDINGS];
    uint32_t ntouched;
    uint64_t reset_checked_ns;
};

static inline int sp_egl_is(const struct sp_egl *dev, uint32_t flag)
{
    return (dev->info.flags & flag) != 0;
}

#endif
