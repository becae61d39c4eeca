/* What the three map kernels of every instruction set share: the check of a program before it runs (map.c). */
#ifndef SP_CPU_MAP_H
#define SP_CPU_MAP_H
#include "../include/sp_map.h"
#include "kernel.h"

/* One block is what a step works on: a whole stack of blocks of doubles stays in a second-level cache. */
enum { SP_MAP_BLOCK = 512, SP_MAP_TASK = 32 * SP_MAP_BLOCK };

/* The deepest the stack gets, or -EINVAL: an unknown op, an operand out of range, an x that is NULL, a stack that runs
 * over or dry, more or less than one value at the end, an op that i32 does not have. `x` are the 8 input pointers. */
int sp_map_check(const uint32_t *program, uint32_t nops, const void *const *x, uint32_t nconsts, int integer);
#endif
