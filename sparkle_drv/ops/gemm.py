"""gemm: c = activation(a @ b + bias) in f32 or f64.

Checks arguments, asks plans.py for a plan and launches gemm_f32 or gemm_f64. Operand strides go to
the kernel as they are, so a transposed matrix costs no copy. On the cpu device a large b that stays
as it is is packed once (weights.py), and a product of numpy arrays that was asked for before takes
a short way (products.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkle_drv._hot import PlanBase
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.types import TilePlan

from . import check, planned, plans, products, shortcut, staging, tiles, weights

ALGOS = ("auto", "naive", "blocked")
"""What `algo` may be."""
_WANTED = ("f32", "f64")


class Gemm:
    """activation(a @ b + bias): a [m, k], b [k, n], bias [n], all float32 or all float64; c [m, n].

    numpy arrays in: synchronous, a numpy array out. Any Array among them: asynchronous on
    dev.default_queue, an Array out whose `.fence` is set. Any strides will do; `out` may overlap an
    input. activation: None, "relu", "tanh" or "sigmoid". algo: "auto", "naive" (the oracle) or
    "blocked".

    On the cpu device, a large b is packed once, and kept packed as long as it lives and is not
    written, if it is an Array or a numpy array that owns its data and is not writeable; see
    weights.py for what is noticed. Any other b is packed in each call, but for a few rows of a,
    which read it where it is if its rows or, as in `x @ W.T`, its columns lie along memory.

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
        act = check.activation(activation)
        staging.device(dev)
        a, b = staging.operand("a", a), staging.operand("b", b)
        weights.look_again(dev, b)
        bias = None if bias is None else staging.operand("bias", bias)
        tag, m, n, k = outline(a, b, bias)
        stage = staging.Stage(dev, {"a": a, "b": b, "bias": bias}, out)
        rows = stage.in_rows(a), stage.in_rows(b)
        function, tile = _function(dev, m, n, k, tag, algo, weights.stays(b), *rows)
        c = stage.target((m, n), a.dtype, rows=True)
        if m and n:
            blob = _kept(dev, b, m, function, tile, rows[1]) if k else None
            if blob is not None:
                (pa, *sa), (pb, *sb) = stage.matrix(a), (blob, n, 1)
            elif k:
                (pa, *sa), (pb, *sb) = stage.matrix(a), stage.matrix(b)
            else:  # a sum of nothing: one product with zero, which no pointer has to be empty for
                k = 1
                zeros = stage.pointer(np.zeros(max(m, n), a.dtype))
                (pa, *sa), (pb, *sb) = (zeros, 1, 1), (zeros, 1, 1)
            bias = stage.pointer(bias)
            taken = function if blob is None else plans.packed(dev, function, tile)
            stage.launch(taken, c.pointer, pa, pb, bias, m, n, k, *sa, *sb, c.row, act)
            if algo == "auto" and not stage.on_device:
                usual, _ = _function(dev, m, n, k, tag, algo, False, *rows)
                packs = _packs(dev, m, n, k, tag, tile)
                products.remember(dev, tag, (m, n, k), rows, usual, packs)
                if blob is not None:
                    products.remember(dev, tag, (m, n, k), rows, taken, True, blob, b)
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
        b: Any = None,
    ) -> GemmPlan:
        """Everything decided once, for products of this shape (1 or more each): see GemmPlan.

        b: a snapshot of the right operand [k, n], taken now; calls then have None in its place. On
        the cpu device it is packed, once and for all calls.
        """
        staging.device(dev)
        tag = check.dtype("gemm", "dtype", dtype, _WANTED)
        m, n, k = check.whole("m", m, 1), check.whole("n", n, 1), check.whole("k", k, 1)
        function, tile = _function(dev, m, n, k, tag, algo, b is not None)
        weights_of_b = None
        if b is not None:
            b = staging.operand("b", b)
            check.same_dtype("b", b.dtype, "dtype", np.dtype(dtype))
            check.shape("b", tuple(b.shape), (k, n), "for this plan")
            weights_of_b = staging.Stage(dev, {"b": b}).copy(b)
            if isinstance(weights_of_b, np.ndarray):
                weights_of_b = dev.array(weights_of_b)
            if _packs(dev, m, n, k, tag, tile):
                weights_of_b = _blob(dev, weights_of_b, function, tile)
                function = plans.packed(dev, function, tile)
        return _Plan(dev, function, tile, (m, n, k), check.activation(activation), weights_of_b)


class GemmPlan(PlanBase):
    """`plan(a, b, out, bias=None) -> Fence`: a gemm without checks or lookups per call.

    Operands are row-major Arrays, Buffers or, on devices with unified memory, numpy arrays of
    exactly the planned shape and dtype; `b` is None for a plan that was made with one. Asynchronous
    for all of them: wait for the fence before reading `out`. Sizes are checked against the memory
    behind each operand (ValueError), dtypes against the kernel's (TypeError); that its shape is the
    planned one is not. `out` may not share memory with an operand (ValueError).
    `bind` goes further and prepares one launch. `kernel` is what runs, `queue` where, `tile` the
    TilePlan that it was made for; `tile.source` says whether that was tuned.
    """

    __slots__ = ("_tail", "kernel", "queue", "tile", "weights")

    def __init__(
        self,
        dev: Device,
        kernel: Kernel,
        tile: TilePlan | None,
        shape: tuple[int, int, int],
        act: int,
        weights_of_b: Array | None = None,
    ) -> None:
        m, n, k = shape
        self.weights = weights_of_b
        """The snapshot of b, packed or not; None without one (@private)."""
        self._short_way = products.planned(dev, shape, kernel, act, weights_of_b)
        self.kernel = kernel
        self.tile = tile
        self.queue = dev.default_queue
        self._tail = (m, n, k, k, 1, n, 1, n, act)

    def _call(self, a: Any, b: Any, out: Any, bias: Any = None) -> Fence:
        """What the short way (native/python/plan.c) leaves alone."""
        given = out, a, self._right(b), bias
        return planned.launch(self.queue, self.kernel, given, self._tail)

    _call.__qualname__ = "GemmPlan.__call__"  # as errors of its arguments name it

    def _right(self, b: Any) -> Any:
        if self.weights is not None and b is not None:
            raise TypeError("b: None is wanted, this plan was made with one")
        return self.weights if b is None else b

    def bind(self, a: Any, b: Any, out: Any, bias: Any = None) -> Any:
        """A prepared launch for these Arrays or Buffers: called, it returns a timeline value.

        `queue.fence(value)` is its fence.
        """
        given = out, a, self._right(b), bias
        return planned.prepare(self.queue, self.kernel, given, self._tail)


_Plan = shortcut.plans(GemmPlan)


def outline(a: Any, b: Any, bias: Any) -> tuple[str, int, int, int]:
    """(dtype, m, n, k) of a product of what has these shapes and dtypes; raises as Gemm."""
    tag = check.dtype("gemm", "a", a.dtype, _WANTED)
    check.same_dtype("b", b.dtype, "a", a.dtype)
    check.dims("a", a.shape, 2, "(m, k)")
    check.dims("b", b.shape, 2, "(k, n)")
    (m, k), n = a.shape, b.shape[1]
    check.shape("b", b.shape, (k, n), f"to go with a of shape {a.shape}")
    if bias is not None:
        check.same_dtype("bias", bias.dtype, "a", a.dtype)
        check.shape("bias", bias.shape, (n,), f"to go with b of shape {b.shape}")
    return tag, m, n, k


def _function(
    dev: Device, m: int, n: int, k: int, tag: str, algo: str, stays: bool, *rows: bool
) -> plans.Chosen:
    check.one_of("algo", algo, ALGOS)
    for name, value in (("m", m), ("n", n), ("k", k)):
        check.size(name, value)
    return plans.gemm(dev, m, n, k, tag, algo, stays, *rows)


def _packs(dev: Device, m: int, n: int, k: int, tag: str, tile: TilePlan | None) -> bool:
    return tile is not None and tiles.packs_b(dev.info, m, n, k, 4 if tag == "f32" else 8, tile)


def _kept(
    dev: Device, b: Any, m: int, function: Kernel, tile: TilePlan | None, rows: bool
) -> Array | None:
    """b as a blob, if it is worth one and its owner can have it kept. `rows`: see tiles.gemm."""
    k, n = b.shape
    if tile is None or not tiles.packs_b(dev.info, m, n, k, b.dtype.itemsize, tile):
        return None
    dots = not rows and m * b.dtype.itemsize <= tiles.DOT_NBYTES
    if dots and dev.deterministic:
        return None  # they add up in another order than products with a packed b
    key = (function.name, n, k, _slices(tile), b.dtype, getattr(b, "strides", None))
    return weights.packed(dev, b, key, lambda: _blob(dev, b, function, tile), dots)


def _blob(dev: Device, b: Any, function: Kernel, tile: TilePlan | None) -> Array:
    stage = staging.Stage(dev, {"b": b})
    pointer, row, column = stage.matrix(b)
    plan = TilePlan(algo="blocked", levels=((0, 0, _slices(tile)), (0, 0, 0)))
    pack = staging.kernel(dev, f"pack_{function.name}", plan)
    k, n = b.shape
    return weights.blob(dev, pack, pointer, n, k, row, column)


def _slices(tile: TilePlan | None) -> int:
    """kc: the one thing of a plan that a blob depends on."""
    return tile.levels[0][2] if tile is not None and tile.levels else 0


gemm = shortcut.operation("gemm", Gemm, products.KEY)
