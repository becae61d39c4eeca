"""gemm: c = activation(a @ b + bias) in f32 or f64.

Checks arguments, asks calls/plans.py for a plan and launches gemm_f32 or gemm_f64. Operand strides
go to the kernel as they are, so a transposed matrix costs no copy. On the cpu device a large
Constant is packed once (constant.py), and a product of numpy arrays that was asked for before takes
a short way (fastpath.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkle_drv._hot import CallableBase, direct
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.calls import plans, table
from sparkle_drv.ops.calls.planned import Plan
from sparkle_drv.ops.memory import staging, weights
from sparkle_drv.ops.memory.constant import Constant, constant, readable
from sparkle_drv.ops.tiles import blocking
from sparkle_drv.types import TilePlan

ALGOS = ("auto", "naive", "blocked")
"""What `algo` may be."""
_WANTED = ("f32", "f64")


class Gemm(CallableBase):
    """activation(a @ b + bias): a [m, k], b [k, n], bias [n], all float32 or all float64; c [m, n].

    numpy arrays in: synchronous, a numpy array out. Any Array among them: asynchronous on
    dev.default_queue, an Array out whose `.fence` is set. Any strides will do; `out` may overlap an
    input. activation: None, "relu", "tanh" or "sigmoid". algo: "auto", "naive" (the oracle) or
    "blocked".

    Arrays are read in each call, whether they are writeable or not. b may be a Constant
    (`ops.constant`): if it is large, the cpu device packs it in its first call only. Any other
    large b is packed in each call. A few rows of a read b in place instead, if its rows or, as in
    `x @ W.T`, its columns lie along memory.

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
        values = a, b, out, bias, activation, algo
        act = check.activation(activation)
        staging.device(dev)
        held = b.of("b", dev) if isinstance(b, Constant) else None
        given = readable(dev, {"a": a, "b": b if held is None else None, "bias": bias}, out)
        a = staging.operand("a", given["a"])
        b = staging.operand("b", b) if held is None else held
        bias = None if bias is None else staging.operand("bias", given["bias"])
        tag, m, n, k = outline(a, b, bias)
        stays = held is not None
        stage = staging.Stage(dev, {"a": a, "b": None if stays else b, "bias": bias}, out)
        rows = stage.in_rows(a), stays or stage.in_rows(b)
        function, tile = _function(dev, m, n, k, tag, algo, stays, *rows)
        c = stage.target((m, n), a.dtype, rows=True)
        if m and n:
            blob = None
            if held is not None and k:
                function, blob = _packed(dev, held, m, function, tile)
                (pa, *sa), (pb, *sb) = stage.matrix(a), (blob, n, 1)
            elif k:
                (pa, *sa), (pb, *sb) = stage.matrix(a), stage.matrix(b)
            else:  # a sum of nothing: one product with zero, which no pointer has to be empty for
                k = 1
                zeros = stage.pointer(np.zeros(max(m, n), a.dtype))
                (pa, *sa), (pb, *sb) = (zeros, 1, 1), (zeros, 1, 1)
            bias = stage.pointer(bias)
            stage.launch(function, c.pointer, pa, pb, bias, m, n, k, *sa, *sb, c.row, act)
        brief = table.is_brief(m, n, k)
        return table.remember(
            stage, stage.finish(c), Gemm.__call__, values, (2, 0, 1, 3), out=2, brief=brief
        )

    def __reduce__(self) -> str:
        return "gemm"

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

        b: the right operand [k, n] of all calls, which then have None in its place. An array is
        copied now: later changes of it do not matter. A Constant is not copied, and must stay open.
        On the cpu device it is packed, once and for all calls.
        """
        staging.device(dev)
        tag = check.dtype("gemm", "dtype", dtype, _WANTED)
        m, n, k = check.whole("m", m, 1), check.whole("n", n, 1), check.whole("k", k, 1)
        function, tile = _function(dev, m, n, k, tag, algo, b is not None)
        act, held = check.activation(activation), None
        if b is not None:
            b = b if isinstance(b, Constant) else staging.operand("b", b)
            check.same_dtype("b", b.dtype, "dtype", np.dtype(dtype))
            check.shape("b", tuple(b.shape), (k, n), "for this plan")
            own = b.of("b", dev) if isinstance(b, Constant) else constant(dev, b)
            function, held = _packed(dev, own, m, function, tile)
        return _Plan(dev, function, tile, (m, n, k), act, held)


class GemmPlan(Plan):
    """`plan(a, b, out, bias=None) -> Fence`: a gemm without checks or lookups per call.

    Operands are row-major Arrays, Buffers or, on devices with unified memory, numpy arrays of
    exactly the planned shape and dtype; `b` is None for a plan that was made with one. Asynchronous
    for all of them: wait for the fence before reading `out`. Sizes are checked against the memory
    behind each operand (ValueError), dtypes against the kernel's (TypeError); that its shape is the
    planned one is not. `out` may not share memory with an operand (ValueError).
    `bind` goes further and prepares one launch. `kernel` is what runs, `queue` where, `tile` the
    TilePlan that it was made for; `tile.source` says whether that was tuned.
    """

    __slots__ = ("weights",)
    _OUT, _SOURCES = 2, (2, 0, 1, 3)

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
        tail = (m, n, k, k, 1, n, 1, n, act)
        super().__init__(dev.default_queue, kernel, tile, tail, table.is_brief(m, n, k))

    def _call(self, a: Any, b: Any, out: Any, bias: Any = None) -> Fence:
        return self._launch(a, b, out, bias)

    _call.__qualname__ = "GemmPlan.__call__"  # as errors of its arguments name it

    def _given(self, a: Any, b: Any, out: Any, bias: Any) -> tuple[Any, ...]:
        if self.weights is not None and b is not None:
            raise TypeError("b: None is wanted, this plan was made with one")
        b = self.weights if b is None else b
        return out, *self._arrays(a=a, b=b, bias=bias)

    def bind(self, a: Any, b: Any, out: Any, bias: Any = None) -> Any:
        """A prepared launch for these Arrays or Buffers: called, it returns a timeline value.

        `queue.fence(value)` is its fence.
        """
        return self._prepare(a, b, out, bias)


_Plan = direct(GemmPlan)


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


def _packed(
    dev: Device, b: Constant, m: int, function: Kernel, tile: TilePlan | None
) -> tuple[Kernel, Array]:
    """The kernel and its right operand: packed, if that is worth it, else row-major."""
    k, n = b.shape
    pack_kernel = f"pack_{function.name}"
    if (
        tile is None
        or not blocking.packs_b(dev.info, m, n, k, b.dtype.itemsize, tile)
        or not dev.provides(pack_kernel)
    ):
        return function, b.array("b", dev)
    kc = tile.levels[0][2] if tile.levels else 0  # all that a blob depends on

    def pack(array: Array) -> Array:
        plan = TilePlan(algo="blocked", levels=((0, 0, kc), (0, 0, 0)))
        kernel = staging.kernel(dev, pack_kernel, plan)
        return weights.blob(dev, kernel, array, n, k, n, 1)

    return plans.packed(dev, function, tile), b.packed(kc, pack)


gemm = table.operation(Gemm)
