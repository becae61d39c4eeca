"""gemm: c = activation(a @ b + bias) in f32 or f64.

gemm checks arguments, asks calls/plans.py for a plan and launches gemm_f32 or gemm_f64. The kernel
takes the operands' strides, so a transposed matrix is not copied. The cpu device packs a large
Constant once (memory/constant.py). The call table repeats a call of numpy arrays that was made
before (calls/table.py).
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from sparkle_drv._hot import CallableBase, direct
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.annotations import Activation, Exporter, GemmAlgo, Host, S
from sparkle_drv.ops.calls import plans, table
from sparkle_drv.ops.calls.prepared_call import PreparedCall
from sparkle_drv.ops.map.operation import convert, through
from sparkle_drv.ops.memory import staging, weights
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.ops.tiles import blocking
from sparkle_drv.types import TilePlan

ALGOS = ("auto", "naive", "blocked")
"""The values of `algo`."""
_WANTED = ("f32", "f64")
THROUGH = {"f16": "f32", "bf16": "f32", "bool": "f32", "u8": "f64"}
"""Other types -> the type in which their products are computed; operands and result are converted.
Products of uint8 are exact in float64, so they wrap as numpy's do.
"""
TYPES = (*_WANTED, *THROUGH)


class Gemm(CallableBase):
    """Computes c = activation(a @ b + bias), for a [m, k], b [k, n], bias [n] and c [m, n].

    All arrays have one type. float32 and float64 have kernels. float16, bfloat16 and bool are
    converted to float32 and back, uint8 to float64 and back. The cpu converts by maps, other
    devices by the host; `explain()` of the result says so.

    With numpy arrays a call is synchronous and returns a numpy array. If an operand is an Array,
    the call runs asynchronously on dev.default_queue and returns an Array with `.fence` set.
    Operands may have any strides; `out` may overlap an input. activation is None, "relu", "tanh" or
    "sigmoid". algo is "auto", "naive" (the oracle) or "blocked".

    Each call reads its arrays again, even read-only ones. b may be a Constant (`ops.constant`): the
    cpu device packs a large Constant only in the first call. Any other large b is packed in each
    call. If a has few rows, b is not packed but read in place, provided that the rows of b are
    contiguous, or the columns of b, as in `x @ W.T`.

    Raises TypeError (not arrays, mixed or other dtypes) and ValueError (shapes, a read-only `out`).

    >>> a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    >>> sp.ops.gemm(dev, a, b, bias=np.array([0, -9], np.float32), activation="relu")
    array([[3., 0.],
           [3., 0.]], dtype=float32)
    >>> c = sp.ops.gemm(dev, dev.array(a), b)
    >>> c.fence.wait(timeout_s=30).done
    True
    """

    @overload
    def __call__(
        self, dev: Device, a: npt.NDArray[S], b: npt.NDArray[S] | Constant,
        out: npt.NDArray[S] | None = None, *, bias: npt.NDArray[S] | Constant | None = None,
        activation: Activation = None, algo: GemmAlgo = "auto",
    ) -> npt.NDArray[S]: ...  # fmt: skip
    @overload
    def __call__(
        self, dev: Device, a: Array, b: Array | Host | Exporter | Constant,
        out: Array | None = None, *, bias: Array | Host | Exporter | Constant | None = None,
        activation: Activation = None, algo: GemmAlgo = "auto",
    ) -> Array: ...  # fmt: skip
    @overload
    def __call__(
        self, dev: Device, a: Host | Exporter, b: Array, out: Array | None = None, *,
        bias: Array | Host | Exporter | Constant | None = None,
        activation: Activation = None, algo: GemmAlgo = "auto",
    ) -> Array: ...  # fmt: skip
    @overload
    def __call__(
        self, dev: Device, a: Host | Exporter | Constant, b: Host | Exporter | Constant,
        out: Any = None, *, bias: Array | Host | Exporter | Constant | None = None,
        activation: Activation = None, algo: GemmAlgo = "auto",
    ) -> Host | Array: ...  # fmt: skip
    def __call__(
        self,
        dev: Device,
        a: Any,
        b: Any,
        out: Any = None,
        *,
        bias: Any = None,
        activation: Activation = None,
        algo: GemmAlgo = "auto",
    ) -> Any:
        """Makes the call that the docstring of the class describes. @public"""
        values = a, b, out, bias, activation, algo
        act = check.activation(activation)
        stage = staging.Stage(dev, {"a": a, "b": b, "bias": bias}, out, packs="b", optional="bias")
        a, b, bias = stage.inputs.values()
        tag, m, n, k = outline(a, b, bias, TYPES)
        check.one_of("algo", algo, ALGOS)
        if tag in THROUGH:
            if out is not None:
                staging.check_out(stage.out, (m, n), a.dtype, None)
            wide = THROUGH[tag]
            b, bias = (x if x is None else convert(dev, _array(x, stage), wide) for x in (b, bias))
            how: Any = {"bias": bias, "activation": activation, "algo": algo}
            return through(
                dev, "gemm", _array(a, stage), wide,
                lambda a: convert(dev, self(dev, a, b, **how), tag, out),
            )  # fmt: skip
        c = stage.target((m, n), a.dtype, rows=True)
        # With k = 0 the sums are empty. Multiply zeros instead, because a kernel takes no empty
        # array.
        if not k:
            a, b, k = np.zeros((m, 1), a.dtype), np.zeros((1, n), a.dtype), 1
        if m and n:
            (pa, *sa), (pb, *sb) = stage.matrix(a), stage.matrix(b)
            stays = isinstance(b, Constant)
            rows = sa[1] == 1, sb[1] == 1
            function, tile = plans.gemm(dev, m, n, k, tag, algo, stays, *rows)
            if stays:
                function, pb = _packed(dev, b, m, function, tile)
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
        dtype: npt.DTypeLike = np.float32,
        *,
        activation: Activation = None,
        algo: GemmAlgo = "auto",
        b: Any = None,
    ) -> GemmPlan:
        """Returns a GemmPlan for products of this shape.

        The arguments are checked and the kernel is chosen once, here.
        m, n and k are 1 or more. If b is given, it is the right operand [k, n] of all calls, which
        then pass None for b. An array is copied now, so later changes have no effect. A Constant is
        not copied and must stay open. The cpu device packs b once for all calls. Raises TypeError
        or ValueError for an argument of a wrong type or value, or a b of another dtype or shape.
        """
        staging.device(dev)
        tag = check.dtype("gemm", "dtype", dtype, _WANTED)
        m, n, k = check.whole("m", m, 1), check.whole("n", n, 1), check.whole("k", k, 1)
        act = check.activation(activation)
        check.one_of("algo", algo, ALGOS)
        kernel, tile = plans.gemm(dev, m, n, k, tag, algo, b is not None)
        if b is not None:
            b = staging.readable("b", b, dev)
            check.same_dtype("b", b.dtype, "this plan", np.dtype(dtype))
            check.shape("b", tuple(b.shape), (k, n), "for this plan")
            kernel, b = _packed(dev, weights.kept(dev, "b", b), m, kernel, tile)
        tail = m, n, k, k, 1, n, 1, n, act
        prepared = _Plan(
            GemmPlan.__call__, dev.default_queue, kernel, tile, tail, table.is_brief(m, n, k)
        )
        prepared.weights = b
        return prepared


class GemmPlan(PreparedCall):
    """A prepared gemm: `plan(a, b, out, bias=None) -> Fence` has no lookups per call.

    Operands are row-major Arrays or Buffers of exactly the planned shape and dtype; on unified
    devices also numpy arrays. `b` is None if the plan was made with b. Every call is asynchronous:
    wait for the fence before reading `out`.

    A call does not check shapes. It raises ValueError if the memory of an operand is too small,
    TypeError if its dtype does not fit the kernel. It raises ValueError if `out` shares memory with
    an operand.

    `bind` prepares one launch. `kernel` runs on `queue`. `tile` is the kernel's TilePlan;
    `tile.source` says whether the plan was tuned.
    """

    __slots__ = ("weights",)
    weights: Array | None
    """The plan's copy of b, packed or not; None if the plan was made without b (@private)."""
    _SOURCES = 2, 0, 1, 3

    def __call__(self, a: Any, b: Any, out: Any, bias: Any = None) -> Fence:
        """Makes the call that the docstring of the class describes. @public"""
        return self._launch(a, b, out, bias)

    def _pointers(self, a: Any, b: Any, out: Any, bias: Any) -> tuple[Any, ...]:
        if self.weights is not None and b is not None:
            raise TypeError("b: expected None, because this plan was made with b")
        b = self.weights if b is None else b
        return out, *self._arrays(a=a, b=b, bias=bias)

    def bind(self, a: Any, b: Any, out: Any, bias: Any = None) -> Any:
        """Returns a prepared launch for these Arrays or Buffers; a call returns a timeline value.

        `queue.fence(value)` gives the fence. Raises the errors of a call of the plan.
        """
        return self._prepare(a, b, out, bias)


_Plan = direct(GemmPlan)


def _array(x: Any, stage: staging.Stage) -> Any:
    """Returns an operand; a Constant is replaced by an array of its elements."""
    if not isinstance(x, Constant):
        return x
    return x.array("b", stage.dev) if stage.on_device else x.numpy()


def outline(
    a: Any, b: Any, bias: Any, takes: tuple[str, ...] = _WANTED
) -> tuple[str, int, int, int]:
    """Returns (dtype, m, n, k) of a product of these operands. Raises the errors of Gemm."""
    tag = check.dtype("gemm", "a", a.dtype, takes)
    check.same_dtype("b", b.dtype, "a", a.dtype)
    check.dims("a", a.shape, 2, "(m, k)")
    check.dims("b", b.shape, 2, "(k, n)")
    (m, k), n = a.shape, b.shape[1]
    check.shape("b", b.shape, (k, n), f"to go with a of shape {a.shape}")
    if bias is not None:
        check.same_dtype("bias", bias.dtype, "a", a.dtype)
        check.shape("bias", bias.shape, (n,), f"to go with b of shape {b.shape}")
    for name, value in (("m", m), ("n", n), ("k", k)):
        check.size(name, value)
    return tag, m, n, k


def _packed(
    dev: Device, b: Constant, m: int, function: Kernel, tile: TilePlan | None
) -> tuple[Kernel, Array]:
    """Returns the kernel and its right operand b: packed if packing pays, otherwise row-major."""
    k, n = b.shape
    pack_kernel = f"pack_{function.name}"
    if (
        tile is None
        or not blocking.packs_b(dev.info, m, n, k, b.dtype.itemsize, tile)
        or not dev.provides(pack_kernel)
    ):
        return function, b.array("b", dev)
    kc = tile.levels[0][2] if tile.levels else 0  # the packed form of b depends only on kc
    packing = TilePlan(algo="blocked", levels=((0, 0, kc), (0, 0, 0)))
    blob = weights.packed(dev, b, kc, pack_kernel, packing, n, k, n, 1)
    return plans.packed(dev, function, tile), blob


gemm = table.operation(Gemm)
