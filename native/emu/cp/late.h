/* Packets of a queue that the command processor does not wait for. */
#ifndef SP_EMU_CP_LATE_H
#define SP_EMU_CP_LATE_H
#include "engine.h"

#include "emu/run/dispatch.h"

/* Executes the packet at cp->p now or later. */
int sp_late_packet(struct sp_cp *cp);
/* Ends the job: executes all pending packets. `followed`: other jobs may run beside them. */
int sp_late_end(struct sp_cp *cp, int followed);
/* Starts a dispatch that has passed its checks. */
int sp_late_dispatch(struct sp_cp *cp, const struct sp_emu_dispatch *d);
/* A wait for memory is not satisfied yet: runs all packets that may run. */
int sp_late_go_on(struct sp_cp *cp);
/* A wait is satisfied by the value at `va`: the RELEASE_MEM that wrote it has ended, and so have
 * all packets before it. */
void sp_late_met(struct sp_cp *cp, uint64_t va);
#endif
