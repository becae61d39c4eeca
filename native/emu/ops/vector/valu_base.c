/* Vector instructions for any host. Compiled for size (setup.py), because few hosts lack AVX2 and
 * O3 would add 27 KB to the wheel. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-math-errno", "no-trapping-math", "fp-contract=off")
#endif
#define SP_LANES_LIST sp_wave_lanes_base
#include "valu.inc"
