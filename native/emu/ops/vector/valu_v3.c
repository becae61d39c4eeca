/* Vector instructions for hosts with AVX2, FMA and F16C. Without FMA every fmaf would be a call.
 * The file is not compiled with O3, which adds 9 KB to the wheel and is no faster
 * (benchmarks/emu.py). */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#pragma GCC optimize("O2", "no-math-errno", "no-trapping-math", "fp-contract=off")
#endif
#define SP_LANES_LIST sp_wave_lanes_v3
#include "valu.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
