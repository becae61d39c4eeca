/* What a compiler may be told about a loop. */
#ifndef SP_CPU_LOOPS_H
#define SP_CPU_LOOPS_H

/* Before a loop whose arrays are either the very same memory or apart: in place is right, and run-time checks for
 * overlap would only stand in the way of vectors. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* it tells of each loop that calls libm and stays scalar */
#define SP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define SP_NOT_UNROLLED
#else
#define SP_INDEPENDENT _Pragma("GCC ivdep")
/* Before a loop of as many steps as a vector has elements: unrolled, it is no loop that becomes a vector. */
#define SP_NOT_UNROLLED _Pragma("GCC unroll 1")
#endif
#endif
