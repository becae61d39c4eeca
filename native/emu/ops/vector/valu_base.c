/* Vector instructions for any host. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math", "fp-contract=off")
#endif
#define SP_LANES_LIST sp_wave_lanes_base
#include "valu.inc"
