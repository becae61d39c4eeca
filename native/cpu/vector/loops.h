/* Hints about loops for compilers. */
#ifndef SP_CPU_LOOPS_H
#define SP_CPU_LOOPS_H

/* Before a loop whose arrays are either identical or disjoint: in place is valid, and run-time
 * checks for overlap would only prevent vectors. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* it warns of each loop that calls libm and stays scalar */
#define SP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define SP_NOT_UNROLLED
#else
#define SP_INDEPENDENT _Pragma("GCC ivdep")
/* Before a loop of as many steps as a vector has elements: unrolled, it is no loop that becomes a vector. */
#define SP_NOT_UNROLLED _Pragma("GCC unroll 1")
#endif
#endif
