"""The same bits for the same number of threads, and with `deterministic=True` for any number.

When this fails, the same call gives different bits from run to run.

What a kernel may not do under SP_PLAN_DETERMINISTIC (sp_cpu.h) is split a sum by how many threads
there are. The shapes are large enough to be cut among eight of them, and uneven.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack

import isas
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops.calls import plans

THREADS = (1, 3, 8)


@pytest.fixture(params=isas.HERE)
def isa(request, monkeypatch):
    """Each instruction set that this machine has."""
    monkeypatch.setenv("SPARKLE_CPU_ISA", request.param)
    return request.param


def random(*shape: int, dtype: type = np.float32) -> np.ndarray:
    seed = [len(shape), *shape]
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


def gemms(dev):
    few = [(1, 1030, 517), (4, 700, 300), (8, 33, 4100), (30, 610, 3001)]
    for m, n, k in [*few, (97, 101, 103), (260, 7, 129)]:
        for dtype in (np.float32, np.float64):
            bias = random(n, dtype=dtype)
            a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
            yield sp.ops.gemm(dev, a, b, bias=bias, activation="relu")
            yield sp.ops.gemm(dev, a, random(n, k, dtype=dtype).T)


CONVOLUTIONS = [  # n, c, size, oc, kernel, options
    (1, 3, (31, 33), 16, (7, 7), dict(stride=2, padding=3)),
    (2, 16, (15, 14), 24, (3, 3), dict(padding=1)),
    (1, 48, (9, 9), 40, (1, 1), {}),
    (1, 24, (17, 19), 24, (3, 3), dict(padding=1, groups=24)),
    (1, 12, (13, 17), 18, (3, 2), dict(stride=(2, 1), dilation=(1, 2), groups=3)),
]


def convolutions(dev):
    for layout in ("NCHW", "NHWC"):
        for algo in ("auto", "direct", "im2col"):
            for n, c, size, oc, kernel, options in CONVOLUTIONS:
                x = random(n, c, *size)
                x = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
                w = random(oc, c // options.get("groups", 1), *kernel)
                yield sp.ops.conv2d(dev, x, w, random(oc), layout=layout, algo=algo, **options)


def reductions(dev):
    shapes = [(300_001,), (3, 70_001), (70_001, 3), (5, 40_000, 2), (257, 1031)]
    for dtype in (np.float32, np.float64, np.int32):
        for shape in shapes:
            x = random(*shape, dtype=dtype)
            for axis in (None, *range(len(shape))):
                yield np.asarray(sp.ops.reduce(dev, x, "sum", axis))


def maps(dev):
    x, y = random(200_003), random(200_003)
    yield sp.ops.map(dev, "tanh(x*y + 1.5) - exp(x/8)", x=x, y=y)
    yield sp.ops.map(dev, "relu(x)*y", x=x.astype(np.float64), y=y.astype(np.float64))
    yield sp.ops.layout(dev, random(3, 37, 41, 29), "NHWC")


def digests(dev, work) -> list[str]:
    return [hashlib.sha256(np.ascontiguousarray(r).tobytes()).hexdigest() for r in work(dev)]


@pytest.mark.unmeasured
@pytest.mark.parametrize("work", [gemms, convolutions, reductions, maps])
def test_deterministic_bits_do_not_depend_on_the_number_of_threads(isa, work):
    with ExitStack() as stack:
        devices = [
            stack.enter_context(sp.open("cpu", threads=t, deterministic=True)) for t in THREADS
        ]
        wanted, *others = (digests(dev, work) for dev in devices)
    for threads, found in zip(THREADS[1:], others, strict=True):
        differ = [i for i, (a, b) in enumerate(zip(wanted, found, strict=True)) if a != b]
        assert not differ, f"{isa} {work.__name__}: cases {differ} with {threads} threads"


@pytest.mark.parametrize("work", [gemms, convolutions, reductions, maps])
@pytest.mark.parametrize("threads", [5])
def test_the_same_number_of_threads_gives_the_same_bits(work, threads):
    with sp.open("cpu", threads=threads) as dev:
        first, second = digests(dev, work), digests(dev, work)
    assert first == second


def test_deterministic_plans_know_nothing_of_threads():
    found = {}
    for threads in THREADS:
        with sp.open("cpu", threads=threads, deterministic=True) as dev:
            found[threads] = [plans.gemm(dev, s, s, s, "f32", "auto")[1] for s in (8, 64, 700)]
    assert all(plan == found[1] for plan in found.values())
    assert all(plan.threads == 0 for plan in found[1])


def test_deterministic_leaves_tuned_plans_alone(monkeypatch):
    """Their cache is by number of threads: another count would run by another plan."""

    def tuned(dev):
        raise AssertionError("looked for a tuned plan")

    a = random(9, 9)
    monkeypatch.setattr(plans, "_tuned", tuned)
    with sp.open("cpu", threads=2, deterministic=True) as dev:
        sp.ops.gemm(dev, a, a)
    with sp.open("cpu", threads=2) as dev, pytest.raises(AssertionError, match="tuned"):
        sp.ops.gemm(dev, a, a)
