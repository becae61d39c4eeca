/* Moves threads to other cores. */
#ifndef SP_CPU_APART_H
#define SP_CPU_APART_H
#include <sys/types.h>

/* This thread's id. */
pid_t sp_apart_self(void);
/* Moves thread `tid` from core `cpu` to another one at once, if it is there and may run on any
 * core. 0: no thread. */
void sp_apart(pid_t tid, int cpu);
#endif
