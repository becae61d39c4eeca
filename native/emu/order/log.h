/* Log of a packet's or a job's memory accesses, for conflicts with concurrent ones. */
#ifndef SP_EMU_ORDER_LOG_H
#define SP_EMU_ORDER_LOG_H
#include "emu/exec.h"

/* The event by which others wait for its end. */
enum sp_ended_by { SP_ENDS_WAVES, SP_ENDS_DMA, SP_ENDS_WRITE, SP_ENDS_RELEASE, SP_ENDS_JOB, SP_ENDS_HERE };

struct sp_touched_grain;
struct sp_log {
    char name[64];     /* "DISPATCH_DIRECT at 0x80000000" */
    uint64_t number;   /* the smaller number came first */
    enum sp_ended_by ended_by;
    uint32_t count, room;
    struct sp_touched_grain **grain; /* a hash table, by line */
};
void sp_log_clear(struct sp_log *log);

/* For a thread that executes: its own log, and the logs it is unordered with. Two rows: packets of
 * its queue, jobs. */
enum { SP_WATCH_PACKETS, SP_WATCH_JOBS, SP_WATCHES, SP_WATCH_OTHERS = 32 };
struct sp_watch {
    struct {
        struct sp_log *mine; /* NULL: not logged */
        struct sp_log *other[SP_WATCH_OTHERS];
        uint32_t others;
    } row[SP_WATCHES];
    uint64_t va;     /* of the first conflict */
    char found[224]; /* empty: none */
};
/* Other threads change the row of jobs too. NULL empties it. */
void sp_watch_begin(struct sp_watch *watch, struct sp_log *job);
void sp_watch_add(struct sp_watch *watch, struct sp_log *job);
/* Assigns further accesses to a packet; NULL: to one without concurrent packets. */
void sp_watch_packet(struct sp_emu_exec *x, struct sp_log *packet);
/* Turns the conflict into a fault. */
int sp_watch_fault(struct sp_emu_exec *x);
/* The thread has read a value that another job wrote for it: it comes after that job's earlier
 * accesses, whichever job it was. */
void sp_watch_met(struct sp_watch *watch);
/* The thread writes a value for other jobs and the CPU: they come after its earlier accesses. */
void sp_watch_told(struct sp_watch *watch);
#endif
