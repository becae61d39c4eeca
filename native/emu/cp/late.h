/* Packets of a queue whose end the command processor does not wait for. */
#ifndef SP_EMU_CP_LATE_H
#define SP_EMU_CP_LATE_H
#include "engine.h"

#include "emu/run/dispatch.h"

/* Executes the packet at cp->p, at once or later. */
int sp_late_packet(struct sp_cp *cp);
/* The job ends: all of them are executed. `followed`: others may run beside them. */
int sp_late_end(struct sp_cp *cp, int followed);
/* A dispatch that was found launchable. */
int sp_late_dispatch(struct sp_cp *cp, const struct sp_emu_dispatch *d);
/* A wait for memory is not met: all goes on that may. */
int sp_late_go_on(struct sp_cp *cp);
/* It is met by what is at `va`: a RELEASE_MEM that wrote there has ended, and so has what it came after. */
void sp_late_met(struct sp_cp *cp, uint64_t va);
#endif
