/* A log of the memory accesses of a packet or job. It shows conflicts with concurrent packets and
 * jobs. */
#ifndef SP_EMU_ORDER_LOG_H
#define SP_EMU_ORDER_LOG_H
#include "emu/fault.h"

#include <stddef.h>

/* Memory is logged, and cached, in grains of 1 KiB. */
enum { SP_VM_GRAIN_BITS = 10, SP_VM_GRAIN = 1 << SP_VM_GRAIN_BITS };
enum sp_touch { SP_READS, SP_WRITES, SP_ATOMIC, SP_TOUCHES }; /* kinds of accesses to memory */

/* The event by which other packets and jobs can know that a packet or job has ended. */
enum sp_ended_by { SP_ENDS_WAVES, SP_ENDS_DMA, SP_ENDS_WRITE, SP_ENDS_RELEASE, SP_ENDS_JOB, SP_ENDS_HERE };

struct sp_touched_grain;
struct sp_log {
    char name[64];     /* the packet or job as text, such as "DISPATCH_DIRECT at 0x80000000" */
    uint64_t number;   /* a packet or job with a smaller number came first */
    enum sp_ended_by ended_by;
    uint32_t count, room;
    /* hash table of the touched memory, in blocks of 1 KiB; the key is the number of the block */
    struct sp_touched_grain **grain;
};
void sp_log_clear(struct sp_log *log);

/* The logs that concern a thread that executes a packet or job: its own log, and those of packets
 * and jobs that no order separates from it. row[SP_WATCH_PACKETS] has logs of packets of the
 * thread's queue, row[SP_WATCH_JOBS] logs of jobs. */
enum { SP_WATCH_PACKETS, SP_WATCH_JOBS, SP_WATCHES, SP_WATCH_OTHERS = 32 };
struct sp_watch {
    struct {
        struct sp_log *mine; /* the thread's own log; NULL: its accesses are not logged */
        struct sp_log *other[SP_WATCH_OTHERS];
        uint32_t others;
    } row[SP_WATCHES];
    uint64_t va;     /* address of the conflict that was found first */
    char found[224]; /* text of the conflict that was found first; empty if there is none */
};
/* Logs an access of the watch's thread to `nbytes` bytes at `va`, which are in grain `line` of the
 * machine's memory. */
void sp_order_note(struct sp_watch *watch, uint64_t line, uint64_t va, size_t nbytes, enum sp_touch touch);
/* Call it when the watch's thread begins a job. `job` is the log in which the thread's accesses are
 * then recorded. If `job` is NULL, the job is not logged, and the logs of all other jobs are
 * removed from the watch. While the job runs, other threads may add the logs of their jobs to the
 * watch (sp_watch_add). */
void sp_watch_begin(struct sp_watch *watch, struct sp_log *job);
void sp_watch_add(struct sp_watch *watch, struct sp_log *job);
/* Turns the conflict that was found first into a fault. Returns -EFAULT. */
int sp_watch_fault(struct sp_watch *watch, struct sp_emu_fault *fault);
/* Call it when the watch's thread has read a value that another job wrote as a signal for it. The
 * thread's later accesses then come after that job's earlier ones. It is not known which job wrote
 * the value. So the logs of all other jobs are removed from the watch. */
void sp_watch_wait_met(struct sp_watch *watch);
/* Call it when the watch's thread writes a value that other jobs or the CPU wait for. Accesses that
 * they make after the wait cannot conflict with accesses that the thread made before the write. So
 * the log of the thread's job is emptied. */
void sp_watch_signalled(struct sp_watch *watch);
#endif
