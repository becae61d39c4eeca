"""Random shapes of gemm and conv2d on every instruction set of the cpu device, against float64.

When this fails, gemm or conv2d on the cpu is wrong for some shape that a user has.

500 small cases of each are chosen so that every kind of edge occurs. Sizes are around those of
micro-tiles and vectors. There are single rows and columns, more taps than pixels, uneven groups,
and padding that nothing reads. Errors are in units of the output's rms before the activation, whose
slope is at most 1. The limit is 1.5e-5, and 1e-4 for Winograd with stride 1, whose transforms cost
accuracy. The rms of a few numbers says little. Below 64 outputs the unit is at least half of the
rms of a sum of that many products of normal numbers.

    PYTHONPATH=tests/kits python tests/backends/cpu/test_cpu_shapes.py conv2d avx2 137

repeats one case, with the error of every algorithm.
"""

from __future__ import annotations

import itertools
import sys
from functools import cache
from types import SimpleNamespace
from typing import Any

import isas
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops.conv2d.operation import ALGOS as CONV_ALGOS
from sparkle_drv.ops.gemm.operation import ALGOS as GEMM_ALGOS

SEED, CASES = 20, 200
DIRECT, LOOSE = 1.5e-5, 1e-4
DOUBLE = 2.0**-29  # float64's rounding against float32's
ACTIVATIONS = {
    None: lambda v: v,
    "relu": lambda v: np.maximum(v, 0),
    "tanh": np.tanh,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
}
WINOGRAD = {"winograd": 2, "winograd2": 2, "winograd6": 1}  # the largest stride
# Around the micro-tiles (4 to 14 rows, 8 to 48 columns) and the vectors (4, 8, 16).
ROWS = (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 27, 28, 29, 31, 33, 57)
COLUMNS = (1, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 63, 65, 97)
TERMS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 129, 257, 300)
CHANNELS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 65)


def any_of(rng: np.random.Generator, values: Any) -> Any:
    return values[rng.integers(len(values))]


def normal(rng: np.random.Generator, shape: Any, dtype: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def laid_out(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The same numbers: as they are, turned, with gaps, reversed, or at an odd address."""
    kind = rng.integers(8)
    if kind == 0:
        return np.asfortranarray(array)
    if kind == 1:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        wide[..., : 2 * array.shape[-1] : 2] = array
        return wide[..., : 2 * array.shape[-1] : 2]
    if kind == 2:
        return np.ascontiguousarray(array[::-1])[::-1]
    if kind == 3:
        raw = np.zeros(array.nbytes + 1, np.uint8)
        odd = raw[1:].view(array.dtype).reshape(array.shape)
        odd[...] = array
        return odd
    return array


def scale(before: np.ndarray, terms: int) -> float:
    """What errors are measured in: the rms, `before` the activation."""
    rms = float(np.sqrt(np.mean(before * before)))
    return rms if before.size >= 64 and rms else max(rms, 0.5 * terms**0.5)


@cache
def gemm_case(number: int) -> SimpleNamespace:
    rng = np.random.default_rng([SEED, 1, number])
    dtype = (np.float32, np.float64)[number % 2]
    m, n, k = (int(any_of(rng, sizes)) for sizes in (ROWS, COLUMNS, TERMS))
    if number % 50 == 49:  # a few with more than one block of k, or enough for two threads
        k = int(rng.integers(700, 1500))
    a, b = normal(rng, (m, k), dtype), normal(rng, (k, n), dtype)
    bias = normal(rng, n, dtype) if rng.integers(2) else None
    activation = any_of(rng, [None, *ACTIVATIONS])
    before = a.astype(float) @ b.astype(float) + (0 if bias is None else bias)
    case = SimpleNamespace(bias=bias, activation=activation, how=int(rng.integers(4)))
    case.a = laid_out(rng, a)
    case.b = b if case.how < 2 else laid_out(rng, b)
    case.algo = any_of(rng, ("auto", "auto", *GEMM_ALGOS))
    case.wanted = ACTIVATIONS[activation](before)
    case.unit = scale(before, k)
    case.limit = DIRECT * (DOUBLE if dtype is np.float64 else 1)
    case.about = f"m {m} n {n} k {k} {dtype.__name__} {activation} how {case.how}"
    return case


def gemm_results(dev: sp.Device, case: SimpleNamespace, algo: str) -> list[np.ndarray]:
    options = dict(activation=case.activation, algo=algo)
    if case.how == 0:  # packed at the first call, if at all; the second goes without Python
        with sp.ops.constant(dev, case.b) as held:
            return [
                sp.ops.gemm(dev, case.a, b, bias=case.bias, **options) for b in (held, held, case.b)
            ]
    if case.how == 1:
        (m, k), n = case.a.shape, case.b.shape[1]
        out = np.full((m, n), np.nan, case.a.dtype)
        plan = sp.ops.gemm.plan(dev, m, n, k, case.a.dtype, **options)
        plan(case.a.copy(), case.b, out, case.bias).wait()
        return [out]
    wide = np.full((case.a.shape[0], case.b.shape[1] + 3), 7, case.a.dtype)
    out = wide[:, :-3] if case.how == 2 else None
    result = sp.ops.gemm(dev, case.a, case.b, out, bias=case.bias, **options)
    assert np.all(wide[:, -3:] == 7), "written between the rows of out"
    return [result]


def columns(x: np.ndarray, kernel: Any, stride: Any, dilation: Any, padding: Any) -> np.ndarray:
    """[n, c, h, w] -> [n, c, oh, ow, kh, kw], the pixels that each output sees."""
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    span = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, span, (2, 3))
    return windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


@cache
def conv2d_case(number: int) -> SimpleNamespace:
    rng = np.random.default_rng([SEED, 2, number])
    kind = number % 5
    groups, stride, dilation, kernel = 1, (1, 1), (1, 1), (3, 3)
    c, oc = int(any_of(rng, CHANNELS)), int(any_of(rng, CHANNELS))
    size = [int(side) for side in rng.integers(1, (16, 40))]
    padding = [[int(p) for p in pair] for pair in rng.integers(0, 3, (2, 2))]
    if kind == 1 and number % 2:
        stride = (2, 2)
    if kind >= 2:  # kinds 0 and 1 are what Winograd takes
        kernel = tuple(int(any_of(rng, (1, 1, 2, 3, 3, 4, 5, 7))) for _ in range(2))
        stride = tuple(int(any_of(rng, (1, 1, 2, 3))) for _ in range(2))
        dilation = tuple(int(any_of(rng, (1, 1, 1, 2, 3))) for _ in range(2))
        padding = [[int(rng.integers(0, k + 1)) for _ in range(2)] for k in kernel]
    if kind == 2:
        kernel, padding = (1, 1), [[0, 0], [0, 0]]
        stride = (1, 1) if number % 2 else stride
        if number % 3 == 0:  # behind the image alone: the first output begins with a pixel
            padding = [[0, int(rng.integers(0, 4))] for _ in range(2)]
    if kind == 3:
        groups = int(any_of(rng, (2, 3, 4)))
        c, oc = groups * -(-c // 4), groups * -(-oc // 4)
    if kind == 4:
        groups = c
        oc = c * int(any_of(rng, (1, 1, 1, 2, 3)))
    for i in range(2):  # at least one output pixel
        short = (kernel[i] - 1) * dilation[i] + 1 - size[i] - sum(padding[i])
        size[i] += max(0, short)
    x = normal(rng, (int(any_of(rng, (1, 1, 2, 3))), c, *size))
    w = normal(rng, (oc, c // groups, *kernel))
    bias = normal(rng, oc) if rng.integers(2) else None
    activation = any_of(rng, [None, *ACTIVATIONS])
    seen = columns(x.astype(float), kernel, stride, dilation, padding)
    seen = seen.reshape(len(x), groups, c // groups, *seen.shape[2:])
    weights = w.astype(float).reshape(groups, oc // groups, c // groups, *kernel)
    before = np.einsum("ngcyxij,gocij->ngoyx", seen, weights, optimize=True)
    before = before.reshape(len(x), oc, *before.shape[3:])
    before = before + (0 if bias is None else bias[:, None, None])
    case = SimpleNamespace(bias=bias, activation=activation, how=int(rng.integers(4)))
    case.layout = ("NCHW", "NHWC")[int(rng.integers(2))]
    case.turn = (0, 1, 2, 3) if case.layout == "NCHW" else (0, 2, 3, 1)
    case.x = laid_out(rng, np.ascontiguousarray(x.transpose(case.turn)))
    case.w = w if case.how < 2 else laid_out(rng, w)
    case.options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    fits_winograd = kernel == (3, 3) and dilation == (1, 1) and groups == 1
    fits_winograd = fits_winograd and stride[0] == stride[1]
    taken = [algo for algo in WINOGRAD if fits_winograd and max(stride) <= WINOGRAD[algo]]
    case.algos = [algo for algo in CONV_ALGOS if algo not in WINOGRAD or algo in taken]
    case.algo = any_of(rng, ("auto", "auto", *case.algos))
    case.wanted = ACTIVATIONS[activation](before).transpose(case.turn)
    case.unit = scale(before, w[0].size)
    case.loose = fits_winograd and stride == (1, 1)
    case.about = f"x {x.shape} w {w.shape} {case.options} {case.layout} {activation} how {case.how}"
    return case


def conv2d_results(dev: sp.Device, case: SimpleNamespace, algo: str) -> list[np.ndarray]:
    options = dict(case.options, layout=case.layout, activation=case.activation, algo=algo)
    if case.how == 0:
        with sp.ops.constant(dev, case.w) as held:
            return [
                sp.ops.conv2d(dev, case.x, w, case.bias, **options) for w in (held, held, case.w)
            ]
    if case.how == 1:
        plan = sp.ops.conv2d.plan(dev, case.x.shape, case.w, case.bias, **options)
        out = np.full(plan.out_shape, np.nan, np.float32)
        plan(case.x.copy(), out).wait()
        return [out]
    return [sp.ops.conv2d(dev, case.x, case.w, case.bias, **options)]


def limit(case: SimpleNamespace, algo: str) -> float:
    """What the error may be, in units of the rms."""
    if hasattr(case, "limit"):
        return case.limit
    return LOOSE if case.loose and algo in ("auto", *WINOGRAD) else DIRECT


OPS = {"gemm": (gemm_case, gemm_results), "conv2d": (conv2d_case, conv2d_results)}


def errors(dev: sp.Device, op: str, number: int, algo: str = "") -> list[float]:
    """Of each result of a case, in units of the rms; inf for a wrong shape or a NaN."""
    make, results = OPS[op]
    case = make(number)
    found = []
    for result in results(dev, case, algo or case.algo):
        if result.shape != case.wanted.shape or np.isnan(result).any():
            found.append(np.inf)
        else:
            found.append(float(np.abs(result - case.wanted).max()) / case.unit)
    return found


@pytest.mark.unmeasured
@pytest.mark.parametrize("isa", isas.HERE)
@pytest.mark.parametrize("op", OPS)
def test_random_shapes(op, isa, monkeypatch):
    monkeypatch.setenv("SPARKLE_CPU_ISA", isa)
    wrong = []
    with sp.open("cpu", threads=2) as dev:
        for number in range(CASES):
            case = OPS[op][0](number)
            try:
                found = errors(dev, op, number)
            except Exception as error:  # a case that is refused is one more failure, not the last
                found = [np.inf, f"{type(error).__name__}: {error}"]
            if found[0] == np.inf or max(found) > limit(case, case.algo):
                wrong.append(f"{op} {isa} {number}: {case.algo} {case.about}: {found}")
    repeat = "PYTHONPATH=tests/kits python tests/backends/cpu/test_cpu_shapes.py "
    assert not wrong, f"{len(wrong)} of {CASES} cases; repeat one with\n" + "\n".join(
        repeat + line for line in wrong[:20]
    )


def test_the_cases_are_worth_it():
    """Every algorithm, layout, activation and kind of call occurs, and every case is small."""
    for op, (make, _) in OPS.items():
        cases = [make(number) for number in range(CASES)]
        assert {case.how for case in cases} == {0, 1, 2, 3}
        assert {case.activation for case in cases} == {*ACTIVATIONS}
        assert {case.algo for case in cases} == {*(GEMM_ALGOS if op == "gemm" else CONV_ALGOS)}
        assert all(case.unit > 0 for case in cases)
    shapes = [conv2d_case(number) for number in range(CASES)]
    assert {case.layout for case in shapes} == {"NCHW", "NHWC"}
    assert sum(case.wanted.size < 64 for case in shapes) > 20
    strides = {case.options["stride"] for case in shapes}
    assert strides >= {*itertools.product((1, 2, 3), repeat=2)}


def test_a_wrong_result_is_found(monkeypatch):
    """One output off by 1e-3 of the rms, and one NaN."""
    with sp.open("cpu") as dev:
        for op, (make, results) in OPS.items():
            for error in (1e-3, np.nan):

                def spoilt(dev, case, algo, results=results, error=error):
                    found = [result.copy() for result in results(dev, case, algo)]
                    found[-1].flat[found[-1].size // 2] += error * case.unit
                    return found

                monkeypatch.setitem(OPS, op, (make, spoilt))
                assert max(errors(dev, op, 3)) > limit(make(3), make(3).algo)
            monkeypatch.undo()


def repeat(op: str, isa: str, number: int) -> int:
    """Prints the errors of one case by every algorithm; 1 if one is too large."""
    pytest.MonkeyPatch().setenv("SPARKLE_CPU_ISA", isa)
    case = OPS[op][0](number)
    print(case.about, "bias" if case.bias is not None else "no bias", "chosen:", case.algo)
    bad = 0
    with sp.open("cpu", threads=2) as dev:
        for algo in getattr(case, "algos", GEMM_ALGOS):
            found = errors(dev, op, number, algo)
            bad += max(found) > limit(case, algo)
            print(f"{algo:10} {limit(case, algo):.3g} allowed", *(f"{e:.3g}" for e in found))
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(repeat(sys.argv[1], sys.argv[2], int(sys.argv[3])))
