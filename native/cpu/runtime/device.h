/* The cpu device's own objects; nothing outside native/cpu sees inside them. */
#ifndef SP_CPU_DEVICE_H
#define SP_CPU_DEVICE_H
#include "core/base.h"
#include "core/progress.h"
#include "core/queue.h"
#include "core/timeline.h"
#include "include/sp_cmd.h"
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct sp_cpu {
    struct sp_device common; /* never lost */
    uint32_t isa;
    int confined; /* all compute stays on the CPUs of pool.places; written before the first queue and kernel */
    _Atomic uint32_t refs; /* the owner and every queue: whoever lets go last ends the pool */
    struct sp_pool pool;
};

enum { SP_KERNEL_MAGIC = 0x4b637073 }; /* "spcK": a handle that is not one of ours is refused, not called */

struct sp_cpu_kernel {
    uint32_t magic;
    uint32_t form;
    uint32_t isa;
    struct sp_cpu *dev;
    void (*fn)(void);
    void *library;
    /* Never runs in its caller. A user's code may never end: on the worker, a wait can time out and say what runs. On a confined
     * device the caller's core is not the device's own. To pin the caller for the call would change a mask that belongs to the
     * user, move a thread twice, and keep one caller from having two devices at work. Kept here, beside what a launch reads. */
    int handed_over;
    struct sp_tile_plan plan;
    struct sp_signature sig;
};

/* One submission on its way: the records follow, and behind them what an upload copies. */
struct sp_job {
    struct sp_job *next;
    uint64_t value;
    size_t nbytes;     /* of the records */
    size_t all_nbytes; /* of the job */
    _Alignas(16) unsigned char records[];
};

struct sp_cpu_queue {
    struct sp_queue common; /* referred to by the worker and by submissions of other queues that wait on us, too */
    struct sp_cpu *dev;
    struct sp_timeline timeline;
    struct sp_job *head, *tail, *current; /* lock */
    uint64_t held_nbytes;                 /* lock: of all jobs that have not ended */
    int worker_started;                   /* lock */

    pthread_t worker;
    _Atomic uint32_t work; /* futex: bumped when a job is queued */
    _Atomic uint32_t worker_sleeps;
    /* A launch that runs in its caller: its record, and whether somebody is copying it (see queue.c). */
    _Atomic(const void *) inline_record;
    _Atomic uint64_t inline_nbytes;
    _Atomic uint32_t peeking;
    struct sp_running running;
};

/* replay.c: checks what only the cpu device can know; runs what was checked. */
int sp_cpu_check_dispatch(const struct sp_cpu *dev, const void *record, size_t nbytes);
int sp_cpu_runs_inline(const void *record);
int sp_cpu_dispatch(const void *record, struct sp_running *running);
int sp_cpu_replay(const void *records, size_t nbytes, struct sp_running *running);

/* device.c */
void sp_cpu_unref(struct sp_cpu *dev);

/* queue.c */
void sp_cpu_queue_unref(void *queue);
#endif
