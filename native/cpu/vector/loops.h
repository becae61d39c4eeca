/* Hints for compilers about loops. */
#ifndef SP_CPU_LOOPS_H
#define SP_CPU_LOOPS_H

/* To be put before a loop whose arrays are either identical or disjoint. Without this hint,
 * run-time checks for overlap would prevent vector code. */
#if defined(__clang__)
/* without this, clang would warn about each loop that stays scalar because it calls libm */
#pragma clang diagnostic ignored "-Wpass-failed"
#define SP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define SP_NOT_UNROLLED
#else
#define SP_INDEPENDENT _Pragma("GCC ivdep")
/* To be put before a loop with one step for each element of a vector. If GCC unrolled such a loop,
 * it would not turn the loop into vector code. */
#define SP_NOT_UNROLLED _Pragma("GCC unroll 1")
#endif
#endif
