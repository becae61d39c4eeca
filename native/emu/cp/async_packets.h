/* Packets that the command processor starts and does not wait for. */
#ifndef SP_EMU_CP_ASYNC_PACKETS_H
#define SP_EMU_CP_ASYNC_PACKETS_H
#include "engine.h"

#include "emu/run/dispatch.h"

/* Executes the packet at cp->p now, or puts it into the list of started packets. */
int sp_async_packet(struct sp_cp *cp);
/* Ends the job: executes all pending packets. `followed`: other jobs may run at the same time. */
int sp_async_end(struct sp_cp *cp, int followed);
/* Starts a dispatch that has passed its checks. */
int sp_async_dispatch(struct sp_cp *cp, const struct sp_emu_dispatch *d);
/* Executes all started packets that are not executed yet. The command processor calls this function
 * while it waits for a value in memory. */
int sp_async_run_ready(struct sp_cp *cp);
/* Call this function when the value at `va` has satisfied a wait. If a RELEASE_MEM wrote the value,
 * it and all packets before it count as ended from now on. */
void sp_async_wait_met(struct sp_cp *cp, uint64_t va);
#endif
