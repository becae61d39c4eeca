/* Moves threads to other cores. */
#ifndef SP_CPU_APART_H
#define SP_CPU_APART_H
#include <sys/types.h>

/* Returns the calling thread's id. */
pid_t sp_apart_self(void);
/* Moves thread `tid` off core `cpu` at once, if its affinity mask has that core and another. Does
 * nothing if tid is 0. */
void sp_apart(pid_t tid, int cpu);
#endif
