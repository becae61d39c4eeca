/* What a packet, or a job, touches of memory while another one may run at the same time. */
#ifndef SP_EMU_ORDER_LOG_H
#define SP_EMU_ORDER_LOG_H
#include "emu/exec.h"

/* What makes others wait for it. */
enum sp_ended_by { SP_ENDS_WAVES, SP_ENDS_DMA, SP_ENDS_WRITE, SP_ENDS_RELEASE, SP_ENDS_JOB, SP_ENDS_HERE };

struct sp_touched_grain;
struct sp_log {
    char name[64];     /* "DISPATCH_DIRECT at 0x80000000" */
    uint64_t number;   /* the smaller one came first */
    enum sp_ended_by ended_by;
    uint32_t count, room;
    struct sp_touched_grain **grain; /* a hash table, by line */
};
void sp_log_clear(struct sp_log *log);

/* Of a thread that executes: who it is, and which others it is not ordered with. Two rows: packets of its queue, jobs. */
enum { SP_WATCH_PACKETS, SP_WATCH_JOBS, SP_WATCHES, SP_WATCH_OTHERS = 32 };
struct sp_watch {
    struct {
        struct sp_log *mine; /* NULL: nobody asks */
        struct sp_log *other[SP_WATCH_OTHERS];
        uint32_t others;
    } row[SP_WATCHES];
    uint64_t va;     /* of the first meeting */
    char found[224]; /* empty: none */
};
/* The row of jobs is changed by other threads, too. NULL empties it. */
void sp_watch_begin(struct sp_watch *watch, struct sp_log *job);
void sp_watch_add(struct sp_watch *watch, struct sp_log *job);
/* From now on the accesses are those of a packet; NULL: of one that nothing runs beside. */
void sp_watch_packet(struct sp_emu_exec *x, struct sp_log *packet);
/* What was found becomes the fault. */
int sp_watch_fault(struct sp_emu_exec *x);
/* The thread has met what another job wrote for it: it comes after what that one did before, whichever it was. */
void sp_watch_met(struct sp_watch *watch);
/* It writes for others to meet, and for the CPU: they come after what it did before. */
void sp_watch_told(struct sp_watch *watch);
#endif
