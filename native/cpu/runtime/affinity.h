/* Moves threads to other cores. */
#ifndef SP_CPU_AFFINITY_H
#define SP_CPU_AFFINITY_H
#include <sys/types.h>

/* Returns the calling thread's id. */
pid_t sp_thread_id(void);
/* Moves thread `tid` off core `cpu` at once, if its affinity mask has that core and another. Does
 * nothing if tid is 0. */
void sp_move_off_core(pid_t tid, int cpu);
#endif
