"""gemm: c = activation(a @ b + bias) in f32 or f64.

Checks arguments, asks plans.py for a plan and launches gemm_f32 or gemm_f64. Operand strides go to
the kernel as they are, so a transposed matrix costs no copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.types import TilePlan

from . import check, plans, staging

ALGOS = ("auto", "naive", "blocked")
"""What `algo` may be."""
_WANTED = ("f32", "f64")


class Gemm:
    """activation(a @ b + bias): a [m, k], b [k, n], bias [n], all float32 or all float64; c [m, n].

    numpy arrays in: synchronous, a numpy array out. Any Array among them: asynchronous on
    dev.default_queue, an Array out whose `.fence` is set. Any strides will do; `out` may overlap an
    input. activation: None, "relu", "tanh" or "sigmoid". algo: "auto", "naive" (the oracle) or
    "blocked".

    Raises TypeError (not arrays, mixed or other dtypes) and ValueError (shapes, a read-only `out`).
    """

    def __call__(
        self,
        dev: Device,
        a: Any,
        b: Any,
        out: Any = None,
        *,
        bias: Any = None,
        activation: str | None = None,
        algo: str = "auto",
    ) -> Any:
        """What the class says. @public"""
        staging.device(dev)
        a, b = staging.operand("a", a), staging.operand("b", b)
        tag = check.dtype("gemm", "a", a.dtype, _WANTED)
        check.same_dtype("b", b.dtype, "a", a.dtype)
        check.dims("a", a.shape, 2, "(m, k)")
        check.dims("b", b.shape, 2, "(k, n)")
        (m, k), n = a.shape, b.shape[1]
        check.shape("b", b.shape, (k, n), f"to go with a of shape {a.shape}")
        if bias is not None:
            bias = staging.operand("bias", bias)
            check.same_dtype("bias", bias.dtype, "a", a.dtype)
            check.shape("bias", bias.shape, (n,), f"to go with b of shape {b.shape}")
        function, _ = _function(dev, m, n, k, tag, algo)
        act = check.activation(activation)

        stage = staging.Stage(dev, {"a": a, "b": b, "bias": bias}, out)
        c = stage.target((m, n), a.dtype, rows=True)
        if m and n:
            if k:
                (pa, *sa), (pb, *sb) = stage.matrix(a), stage.matrix(b)
            else:  # a sum of nothing: one product with zero, which no pointer has to be empty for
                k = 1
                zeros = stage.pointer(np.zeros(max(m, n), a.dtype))
                (pa, *sa), (pb, *sb) = (zeros, 1, 1), (zeros, 1, 1)
            bias = stage.pointer(bias)
            stage.launch(function, c.pointer, pa, pb, bias, m, n, k, *sa, *sb, c.row, act)
        return stage.finish(c)

    def plan(
        self,
        dev: Device,
        m: int,
        n: int,
        k: int,
        dtype: Any = np.float32,
        *,
        activation: str | None = None,
        algo: str = "auto",
    ) -> GemmPlan:
        """Everything decided once, for products of this shape (1 or more each): see GemmPlan."""
        staging.device(dev)
        tag = check.dtype("gemm", "dtype", dtype, _WANTED)
        m, n, k = check.whole("m", m, 1), check.whole("n", n, 1), check.whole("k", k, 1)
        function, tile = _function(dev, m, n, k, tag, algo)
        return GemmPlan(dev, function, tile, (m, n, k), check.activation(activation))


class GemmPlan:
    """`plan(a, b, out, bias=None) -> Fence`: a gemm without checks or lookups per call.

    Operands are row-major Arrays, Buffers or, on devices with unified memory, numpy arrays of
    exactly the planned shape and dtype. Asynchronous for all of them: wait for the fence before
    reading `out`. Sizes are checked against the memory behind each operand, strides and dtypes are
    not. `bind` goes further and prepares one launch. `kernel` is what runs, `queue` where, `tile`
    the TilePlan that it was made for; `tile.source` says whether that was tuned.
    """

    __slots__ = ("_launch", "_tail", "kernel", "queue", "tile")

    def __init__(
        self,
        dev: Device,
        kernel: Kernel,
        tile: TilePlan | None,
        shape: tuple[int, int, int],
        act: int,
    ) -> None:
        m, n, k = shape
        self.kernel = kernel
        self.tile = tile
        self.queue = dev.default_queue
        self._launch = self.queue.launch
        self._tail = (m, n, k, k, 1, n, 1, n, act)

    def __call__(self, a: Any, b: Any, out: Any, bias: Any = None) -> Fence:
        return self._launch(self.kernel, out, a, b, bias, *self._tail)

    def bind(self, a: Any, b: Any, out: Any, bias: Any = None) -> Any:
        """A prepared launch for these Arrays or Buffers: called, it returns a timeline value.

        `queue.fence(value)` is its fence.
        """
        return self.queue.prepare(self.kernel, out, a, b, bias, *self._tail)


def _function(dev: Device, m: int, n: int, k: int, tag: str, algo: str) -> plans.Chosen:
    check.one_of("algo", algo, ALGOS)
    for name, value in (("m", m), ("n", n), ("k", k)):
        check.size(name, value)
    return plans.gemm(dev, m, n, k, tag, algo)


gemm = Gemm()
