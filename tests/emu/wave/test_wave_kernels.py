"""Kernels that clang compiled for both chips against the same source for the host, bit for bit.

When this fails, compiled kernels compute something else on the emulator than on a CPU.
"""

from __future__ import annotations

import ctypes
import shlex
import subprocess
import sysconfig

import numpy as np
import pytest
from wavekit import HERE

from sparkle_drv.testing.emulated_kernels import CardKernels
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

CHIPS = ["gfx1036", "gfx1100"]
N = 500  # no multiple of a group


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """kernels/lanes.c for this machine."""
    library = tmp_path_factory.mktemp("lanes") / "lanes.so"
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    flags = [
        "-std=gnu11",
        "-O1",
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-w",
        "-shared",
        "-fPIC",
    ]
    source = str(HERE / "kernels" / "lanes.c")
    subprocess.run([compiler, *flags, "-o", str(library), source, "-lm"], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="module", params=CHIPS)
def card(request):
    with Machine([request.param]) as machine, machine.open() as node, EmulatedGpu(node) as gpu:
        yield request.param, gpu


def rng(name):
    seed = sum(name.encode())
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def ints(name, dtype, count=N):
    """Random bits, small numbers, and the edges."""
    r, info = rng(name + str(dtype)), np.iinfo(dtype)
    wide = r.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    small = r.integers(max(info.min, -100), 100, count).astype(dtype)
    values = np.where(r.random(count) < 0.5, wide, small).astype(dtype)
    edges = [0, 1, info.max, info.min, info.max - 1, info.min + 1, 2, 3]
    values[: len(edges)] = [dtype(edge) for edge in edges]
    return values


def floats(name, dtype, count=N):
    """Random bits that are numbers, ordinary numbers, and the edges."""
    r, bits = rng(name), {4: np.uint32, 8: np.uint64, 2: np.uint16}[np.dtype(dtype).itemsize]
    values = r.integers(0, np.iinfo(bits).max, count, dtype=bits).view(dtype)
    plain = (r.standard_normal(count) * 100).astype(dtype)
    values = np.where(np.isfinite(values) & (r.random(count) < 0.5), values, plain)
    tiny = np.finfo(dtype).smallest_subnormal
    edges = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        tiny,
        -3 * tiny,
        np.finfo(dtype).max,
        1.0,
        np.finfo(dtype).tiny,
    ]
    values[: len(edges)] = np.array(edges, dtype)
    r.shuffle(values[: 3 * len(edges)])
    return values


def results(card, host, name, inputs, outputs, build="lanes"):
    """The kernel's outputs on the card and on the host; outputs: (dtype, count)."""
    chip, gpu = card
    count = len(inputs[0])
    want = [np.zeros(n, dtype) for dtype, n in outputs]
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in [*inputs, *want]]
    getattr(host, name)(*pointers, ctypes.c_int(count))
    buffers = [gpu.buffer(array.nbytes) for array in [*inputs, *want]]
    with CardKernels(gpu, chip, HERE / "kernels" / f"{build}.{chip}.hsaco") as kernels:
        try:
            for array, buffer in zip(inputs, buffers, strict=False):
                buffer.map[: array.nbytes] = array.tobytes()
            kernels.launch(name, [*buffers, count], -(-count // 64))
            got = [
                np.frombuffer(buffer.map, array.dtype)[: len(array)].copy()
                for array, buffer in zip(want, buffers[len(inputs) :], strict=True)
            ]
        finally:
            for buffer in buffers:
                buffer.close()
    return got, want


def bits_equal(got, want):
    """Bit for bit; a NaN may be any NaN."""
    for g, w in zip(got, want, strict=True):
        if g.dtype.kind == "f":
            np.testing.assert_array_equal(np.isnan(g), np.isnan(w))
            unsigned = np.dtype(f"u{g.itemsize}")
            g, w = (
                np.where(np.isnan(g), 0, g).view(unsigned),
                np.where(np.isnan(w), 0, w).view(unsigned),
            )
        np.testing.assert_array_equal(g, w)


INPUTS = {
    "collatz": lambda: ([ints("a", np.uint32)], [(np.uint32, N)]),
    "mix64": lambda: ([ints("a", np.uint64)], [(np.uint64, N)]),
    "div32": lambda: ([ints("a", np.int32), ints("bb", np.int32)], [(np.int32, 4 * N)]),
    "div64": lambda: ([ints("a", np.int64), ints("bb", np.int64)], [(np.int64, 4 * N)]),
    "divf32": lambda: ([floats("a", np.float32), floats("bb", np.float32)], [(np.float32, 2 * N)]),
    "divf64": lambda: ([floats("a", np.float64), floats("bb", np.float64)], [(np.float64, 3 * N)]),
    "calls": lambda: ([ints("a", np.uint32)], [(np.uint32, N)]),
    "sorted": lambda: ([ints("a", np.int32)], [(np.int32, 2 * N)]),
    "narrow": lambda: ([ints("a", np.uint8), ints("b", np.int16)], [(np.uint8, N), (np.uint16, N)]),
    "convert": lambda: ([floats("a", np.float32), ints("b", np.int64)], [(np.uint64, 8 * N)]),
    "halves": lambda: ([floats("a", np.float16), floats("bb", np.float16)], [(np.float16, 4 * N)]),
    "sha256": lambda: ([ints("a", np.uint32), ints("t", np.uint32)], [(np.uint32, 8 * N)]),
    "switched": lambda: ([ints("a", np.uint32), floats("b", np.float32)], [(np.float32, N)]),
}


@pytest.mark.parametrize(
    ("name", "dtype", "outputs"), [("divf32", np.float32, 2), ("divf64", np.float64, 3)]
)
def test_denormal_quotients_of_huge_denominators(card, host, name, dtype, outputs):
    r, most = rng(name), np.finfo(dtype).max
    a = (r.uniform(-4, 4, N)).astype(dtype)
    b = (most * r.uniform(0.25, 1, N) * np.where(r.random(N) < 0.5, -1, 1)).astype(dtype)
    bits_equal(*results(card, host, name, [a, b], [(dtype, outputs * N)]))


@pytest.mark.parametrize("build", ["lanes", "lanes64"])
@pytest.mark.parametrize("name", INPUTS)
def test_lane_kernel_equals_the_host(card, host, name, build):
    """Built for waves of 32 with -O2, and for waves of 64 with -O1."""
    inputs, outputs = INPUTS[name]()
    bits_equal(*results(card, host, name, inputs, outputs, build))


def run_group_kernel(card, name, inputs, outputs, groups, *args):
    """Arguments are inputs, outputs, ints; the arrays are filled from the card."""
    chip, gpu = card
    arrays = [*inputs, *outputs]
    buffers = [gpu.buffer(array.nbytes) for array in arrays]
    with CardKernels(gpu, chip, HERE / "kernels" / f"groups.{chip}.hsaco") as kernels:
        try:
            for array, buffer in zip(arrays, buffers, strict=True):
                buffer.map[: array.nbytes] = array.tobytes()
            kernels.launch(name, [*buffers, *args], groups)
            for array, buffer in zip(arrays, buffers, strict=True):
                array[...] = np.frombuffer(buffer.map, array.dtype)[: array.size].reshape(
                    array.shape
                )
        finally:
            for buffer in buffers:
                buffer.close()


def test_tree_in_lds(card):
    a, out = ints("tree", np.uint32, 1280), np.zeros(5, np.uint32)
    run_group_kernel(card, "tree_sum", [a], [out], 5)
    np.testing.assert_array_equal(out, a.reshape(5, 256).sum(1, dtype=np.uint32))


def test_every_width_through_lds(card):
    a = ints("reverse", np.uint32, 3 * 64 * 4)
    out, out8 = np.zeros_like(a), np.zeros(192, np.uint64)
    out2, out1 = np.zeros(192, np.uint16), np.zeros(192, np.uint8)
    run_group_kernel(card, "reverse", [a], [out, out8, out2, out1], 3)
    want = a.reshape(3, 64, 4)[:, ::-1].reshape(-1, 4)
    np.testing.assert_array_equal(out.reshape(-1, 4), want)
    np.testing.assert_array_equal(out8, want[:, 0].astype(np.uint64) << np.uint64(32) | want[:, 1])
    np.testing.assert_array_equal(out2, want[:, 2].astype(np.uint16))
    np.testing.assert_array_equal(out1, want[:, 3].astype(np.uint8))


def test_atomics_in_lds_and_memory(card):
    a, counts = ints("histogram", np.uint32, 512), np.zeros(257, np.uint32)
    total, extremes = np.zeros(1, np.uint64), np.zeros(2, np.int32)
    run_group_kernel(card, "histogram", [a], [counts, total, extremes], 8)
    np.testing.assert_array_equal(counts[:256], np.bincount(a.view(np.uint8), minlength=256))
    assert counts[256] == (a & 1).sum()
    assert total[0] == a.sum(dtype=np.uint64)
    assert list(extremes) == [max(0, a.view(np.int32).max()), min(0, a.view(np.int32).min())]


def test_lanes_of_a_wave(card):
    a, out = ints("wave", np.int32, 128), np.zeros((128, 8), np.int32)
    run_group_kernel(card, "wave_ops", [a], [out], 2)
    waves, lane = a.reshape(4, 32), np.arange(32)
    odd = waves & 1
    prefix = waves.reshape(4, 2, 16).view(np.uint32).cumsum(2, dtype=np.uint32).view(np.int32)
    quads = np.array([0x053977 >> 3 * k & 7 for k in range(8)])
    first = np.array([w[o.argmax()] for w, o in zip(waves, odd, strict=True)])
    want = [
        prefix.reshape(4, 32),
        waves[:, lane ^ 5],
        np.repeat(waves[:, 17:18], 32, 1),
        odd.cumsum(1) - odd,
        waves[:, lane ^ 16],
        waves[:, lane ^ 16],
        waves[:, (lane & ~7) + quads[lane & 7]],
        np.where(odd, first[:, None], 0),
    ]
    for k, values in enumerate(want):
        np.testing.assert_array_equal(out[:, k].reshape(4, 32), values, err_msg=f"result {k}")


def test_pointers_to_any_memory(card):
    a, pick = ints("any", np.int32, 192), np.zeros(193, np.int32)
    pick[:192] = rng("pick").integers(0, 3, 192)
    want = a.view(np.uint32).copy()
    lid = np.arange(192, dtype=np.uint32) % 64
    triple = want * np.uint32(3) + lid
    which = pick[1:] & 3
    private = (
        np.uint32(3) * want + np.uint32(6) + (want + which.astype(np.uint32)) * np.uint32(3) + lid
    )
    private -= which.astype(np.uint32)
    want = np.where(pick[:192] == 1, private, triple)
    run_group_kernel(card, "anywhere", [a, pick], [], 3)
    np.testing.assert_array_equal(a.view(np.uint32), want)


def test_sgemm(card):
    r = rng("sgemm")
    a, b = (r.standard_normal((48, 48)).astype(np.float32) for _ in range(2))
    c = np.zeros((48, 48), np.float32)
    run_group_kernel(card, "sgemm", [a, b], [c], 9, 48)
    # The order of the sums is the kernel's: 48 rounded steps.
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, atol=48 * 2**-24 * 48)
