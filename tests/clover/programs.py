"""OpenCL C programs and, for each, what it must compute, in numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from opencl import Local

THREADS, GROUP = 1024, 64
EPS = 2.0**-23


@dataclass(frozen=True)
class Program:
    """`arguments` makes the kernel's; `oracle` takes them and gives the first array after it."""

    source: str
    arguments: Callable[[np.random.Generator], list[object]]
    oracle: Callable[..., np.ndarray]
    ulps: float = 0  # of the largest result: OpenCL 1.1, section 7.4, where it is not 0


def f32(r):
    return r.standard_normal(THREADS).astype(np.float32)


def u32(r):
    return r.integers(0, 1 << 32, THREADS, dtype=np.uint32)


def u64(r):
    return r.integers(0, 1 << 64, THREADS, dtype=np.uint64)


def zeros(dtype, count=THREADS):
    return np.zeros(count, dtype)


def collatz(_, n):
    steps = np.zeros(n.size, np.uint32)
    for at, value in enumerate(int(v) for v in n):
        while value != 1 and steps[at] < 60:
            value = 3 * value + 1 if value % 2 else value // 2
            steps[at] += 1
    return steps


def shifts(_, a, n):
    n = n & np.uint32(63)
    low = (a << n.astype(np.uint64)) ^ (a >> n.astype(np.uint64))
    return low ^ (a.view(np.int64) >> n.astype(np.int64)).view(np.uint64)


PROGRAMS = {
    "saxpy": Program(
        """__kernel void saxpy(__global float *y, __global const float *x, float a, uint n)
        { uint i = get_global_id(0); if (i < n) y[i] = fma(a, x[i], y[i]); }""",
        lambda r: [f32(r), f32(r), np.float32(2.5), np.uint32(1000)],
        lambda y, x, a, n: np.where(
            np.arange(THREADS) < n, (np.float64(a) * x + y).astype(np.float32), y
        ),
    ),
    "tree": Program(  # a sum in local memory, with barriers
        """__kernel void tree(__global uint *out, __global const uint *in, __local uint *t)
        {
            uint l = get_local_id(0);
            t[l] = in[get_global_id(0)];
            for (uint n = get_local_size(0) / 2; n; n /= 2) {
                barrier(CLK_LOCAL_MEM_FENCE);
                if (l < n) t[l] += t[l + n];
            }
            if (l == 0) out[get_group_id(0)] = t[0];
        }""",
        lambda r: [zeros(np.uint32, THREADS // GROUP), u32(r), Local(4 * GROUP)],
        lambda out, a, _: a.reshape(-1, GROUP).sum(1, dtype=np.uint32),
    ),
    "transcendental": Program(
        """__kernel void transcendental(__global float *out, __global const float *x)
        { uint i = get_global_id(0); out[i] = sin(x[i]) + exp(x[i]) * log(fabs(x[i]) + 1.5f); }""",
        lambda r: [zeros(np.float32), f32(r)],
        lambda out, x: np.sin(v := x.astype(np.float64)) + np.exp(v) * np.log(np.abs(v) + 1.5),
        ulps=12,
    ),
    "quotients": Program(
        """__kernel void quotients(__global float *out, __global const float *x)
        { uint i = get_global_id(0); out[i] = x[i] / x[i ^ 1] + sqrt(fabs(x[i])); }""",
        lambda r: [zeros(np.float32), f32(r)],
        lambda out, x: x.astype(np.float64) / x[np.arange(THREADS) ^ 1] + np.sqrt(np.abs(x)),
        ulps=6,
    ),
    "mul64": Program(
        """__kernel void mul64(__global ulong *out, __global ulong *a, __global ulong *b)
        { uint i = get_global_id(0); out[i] = a[i] * b[i] + mul_hi(a[i], b[i]); }""",
        lambda r: [zeros(np.uint64), u64(r), u64(r)],
        lambda out, a, b: (
            a * b + np.array([int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)], np.uint64)
        ),
    ),
    "div64": Program(
        """__kernel void div64(__global ulong *out, __global ulong *a, __global uint *b)
        { uint i = get_global_id(0); out[i] = a[i] / (b[i] | 1) + a[i] % (b[i] | 1); }""",
        lambda r: [zeros(np.uint64), u64(r), u32(r)],
        lambda out, a, b: a // (b | np.uint32(1)) + a % (b | np.uint32(1)),
    ),
    "shifts": Program(
        """__kernel void shifts(__global ulong *out, __global ulong *a, __global uint *n)
        {
            uint i = get_global_id(0), by = n[i] & 63;
            out[i] = (a[i] << by) ^ (a[i] >> by) ^ (ulong)((long)a[i] >> by);
        }""",
        lambda r: [zeros(np.uint64), u64(r), u32(r)],
        shifts,
    ),
    "divergence": Program(  # loops of different lengths in the lanes of a wave
        """__kernel void divergence(__global uint *out, __global const uint *in)
        {
            uint i = get_global_id(0), n = in[i], steps = 0;
            while (n != 1 && steps < 60) { n = n & 1 ? 3 * n + 1 : n / 2; steps++; }
            out[i] = steps;
        }""",
        lambda r: [zeros(np.uint32), r.integers(1, 5000, THREADS, dtype=np.uint32)],
        collatz,
    ),
    "atomics": Program(
        """__kernel void atomics(__global uint *out, __global const uint *in, __local uint *top)
        {
            uint i = get_global_id(0);
            if (get_local_id(0) == 0) *top = 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            atomic_add(&out[in[i] & 15], 1);
            atomic_max(top, in[i]);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (get_local_id(0) == 0) atomic_max(&out[16], *top);
        }""",
        lambda r: [zeros(np.uint32, 17), u32(r), Local(4)],
        lambda out, a, _: np.append(np.bincount(a & 15, minlength=16), a.max()).astype(np.uint32),
    ),
    "doubles": Program(
        """#pragma OPENCL EXTENSION cl_khr_fp64 : enable
        __kernel void doubles(__global double *out, __global const double *a)
        { uint i = get_global_id(0); out[i] = fma(a[i], a[i ^ 1], a[i]) / (a[i ^ 2] + 9.0); }""",
        lambda r: [zeros(np.float64), r.standard_normal(THREADS)],
        lambda out, a: (a * a[(at := np.arange(THREADS)) ^ 1] + a) / (a[at ^ 2] + 9.0),
        ulps=8 / 2**29,
    ),
    "scratch": Program(  # an array that is indexed by what is loaded lies in scratch memory
        """__kernel void scratch(__global uint *out, __global const uint *in)
        {
            uint i = get_global_id(0), t[40];
            for (uint k = 0; k < 40; k++) t[k] = in[(i + k) & 1023];
            for (uint k = 0; k < 40; k++) t[in[(i + k) & 1023] % 40] += t[k];
            out[i] = t[in[i] % 40] ^ t[7];
        }""",
        lambda r: [zeros(np.uint32), u32(r)],
        lambda out, a: np.array([_scratch(a, i) for i in range(THREADS)], np.uint32),
    ),
    "negative": Program(  # a private array of which the middle is zero: indices may be negative
        """__kernel void negative(__global int *out, __global const int *in)
        {
            int i = get_global_id(0), t[33], *middle = t + 16;
            for (int k = -16; k <= 16; k++) middle[k] = in[(i + k) & 1023];
            int from = -(in[i] & 15), sum = 0;
            for (int k = from; k < from + 17; k++) sum += middle[k] * (k + 20);
            middle[-(in[i] >> 4 & 15)] = sum;
            out[i] = middle[from] ^ middle[-16] ^ sum;
        }""",
        lambda r: [zeros(np.int32), u32(r).view(np.int32)],
        lambda out, a: np.array([_negative(a, i) for i in range(THREADS)], np.int64).astype(
            np.int32
        ),
    ),
    "scan": Program(  # inclusive, of each group, in local memory
        """__kernel void scan(__global uint *out, __global const uint *in, __local uint *t)
        {
            uint l = get_local_id(0), i = get_global_id(0);
            t[l] = in[i];
            for (uint n = 1; n < get_local_size(0); n *= 2) {
                barrier(CLK_LOCAL_MEM_FENCE);
                uint before = l >= n ? t[l - n] : 0;
                barrier(CLK_LOCAL_MEM_FENCE);
                t[l] += before;
            }
            out[i] = t[l];
        }""",
        lambda r: [zeros(np.uint32), u32(r), Local(4 * GROUP)],
        lambda out, a, _: np.cumsum(a.reshape(-1, GROUP), axis=1, dtype=np.uint32).ravel(),
    ),
    "sort": Program(  # bitonic, of each group
        """__kernel void sort(__global int *out, __global const int *in, __local int *t)
        {
            uint l = get_local_id(0), i = get_global_id(0);
            t[l] = in[i];
            for (uint size = 2; size <= get_local_size(0); size *= 2)
                for (uint step = size / 2; step; step /= 2) {
                    barrier(CLK_LOCAL_MEM_FENCE);
                    uint other = l ^ step;
                    if (other > l && (t[l] > t[other]) == ((l & size) == 0)) {
                        int kept = t[l];
                        t[l] = t[other];
                        t[other] = kept;
                    }
                }
            barrier(CLK_LOCAL_MEM_FENCE);
            out[i] = t[l];
        }""",
        lambda r: [zeros(np.int32), u32(r).view(np.int32), Local(4 * GROUP)],
        lambda out, a, _: np.sort(a.reshape(-1, GROUP), axis=1).ravel(),
    ),
    "vectors": Program(  # three of four elements are stored, bytes are packed
        """__kernel void vectors(__global uint *out, __global const uchar4 *in, float scale)
        {
            uint i = get_global_id(0);
            uint3 v = convert_uint3_sat(convert_float3(in[i].xyz) * scale);
            vstore3(v, i, out);
        }""",
        lambda r: [zeros(np.uint32, 3 * THREADS), u32(r), np.float32(2.5)],
        lambda out, a, scale: (
            (a.view(np.uint8).reshape(-1, 4)[:, :3] * scale).astype(np.uint32).ravel()
        ),
    ),
}


def _scratch(a: np.ndarray, i: int) -> int:
    t = [int(a[(i + k) & 1023]) for k in range(40)]
    for k in range(40):
        t[int(a[(i + k) & 1023]) % 40] += t[k]
        t = [v & 0xFFFFFFFF for v in t]
    return t[int(a[i]) % 40] ^ t[7]


def _negative(a: np.ndarray, i: int) -> int:
    middle = {k: int(a[(i + k) & 1023]) for k in range(-16, 17)}
    start = -(int(a[i]) & 15)
    total = sum(middle[k] * (k + 20) for k in range(start, start + 17))
    total = (total + (1 << 31)) % (1 << 32) - (1 << 31)
    middle[-(int(a[i]) >> 4 & 15)] = total
    return middle[start] ^ middle[-16] ^ total


def judge(program: Program, arguments: list[object], got: np.ndarray) -> str | None:
    """What is wrong with a result; None: nothing."""
    with np.errstate(over="ignore"):
        wanted = program.oracle(*arguments)
    if program.ulps == 0:
        if not (bad := np.flatnonzero(got != wanted)).size:
            return None
        return f"{bad.size} differ, at {bad[0]}: {got[bad[0]]}, {wanted[bad[0]]}"
    error = np.abs(got - wanted).max() / np.maximum(1, np.abs(wanted).max()) / EPS
    return None if error <= program.ulps else f"off by {error:.1f} of {program.ulps} units"
