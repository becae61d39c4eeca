/* The cpu device's objects, private to native/cpu. */
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
    struct sp_device common; /* this device is never lost */
    uint32_t isa;
    /* 1: all work stays on the CPUs of pool.places; set before a queue or a kernel is made */
    int confined;
    /* references: the owner's and one of each queue; dropping the last one ends the thread pool */
    _Atomic uint32_t refs;
    struct sp_pool pool;
};

/* "spcK"; a handle without this magic number is refused, not called */
enum { SP_KERNEL_MAGIC = 0x4b637073 };

struct sp_cpu_kernel {
    uint32_t magic;
    uint32_t form;
    uint32_t isa;
    struct sp_cpu *dev;
    void (*fn)(void);
    void *library;
    /* 1: the kernel never runs in the calling thread, but always on the worker. A user's code may
     * never end, and then a wait can time out and name the kernel. On a confined device, the caller
     * may be on a core that the device must not use. Pinning the caller during the call would
     * change the user's mask and move a thread twice. It would also keep one caller from using two
     * devices at once. The field is here because each launch reads it. */
    int handed_over;
    struct sp_tile_plan plan;
    struct sp_signature sig;
};

/* A submission that has not ended. Its records follow it, then the bytes of an upload. */
struct sp_job {
    struct sp_job *next;
    uint64_t value;
    size_t nbytes;     /* bytes of the records */
    size_t all_nbytes; /* bytes of this struct, the records and the uploaded data */
    _Alignas(16) unsigned char records[];
};

struct sp_cpu_queue {
    /* its reference count also counts the worker thread, and each submission of another queue that
     * waits for this queue */
    struct sp_queue common;
    struct sp_cpu *dev;
    struct sp_timeline timeline;
    /* The members from `head` to `worker_started` are read and written only with the queue's lock
     * held. */
    struct sp_job *head, *tail, *current;
    uint64_t held_nbytes; /* bytes of all jobs that have not ended */
    int worker_started;

    pthread_t worker;
    _Atomic uint32_t work; /* futex, incremented when a job is queued */
    _Atomic uint32_t worker_sleeps;
    /* `inline_record` is the record of a launch that runs in its caller's thread, `inline_nbytes`
     * the size of that record in bytes. `peeking` is the number of calls of sp_cpu_peek that are
     * copying the record now (see queue.c). */
    _Atomic(const void *) inline_record;
    _Atomic uint64_t inline_nbytes;
    _Atomic uint32_t peeking;
    struct sp_running running;
};

/* Defined in replay.c: checks that need the device, and functions that run checked records. */
int sp_cpu_check_dispatch(const struct sp_cpu *dev, const void *record, size_t nbytes);
int sp_cpu_runs_inline(const void *record);
int sp_cpu_dispatch(const void *record, struct sp_running *running);
int sp_cpu_replay(const void *records, size_t nbytes, struct sp_running *running);

/* Defined in device.c. */
void sp_cpu_unref(struct sp_cpu *dev);

/* Defined in queue.c. */
void sp_cpu_queue_unref(void *queue);
#endif
