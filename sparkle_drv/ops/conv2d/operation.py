"""conv2d: 2-D cross-correlation in f32, NCHW or NHWC, with bias and activation.

conv2d checks arguments (shapes/geometry.py), asks calls/plans.py for a plan and launches
conv2d_f32. The call table repeats a call of numpy arrays that was made before (calls/table.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, overload

import numpy.typing as npt

from sparkle_drv._hot import CallableBase, direct
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.annotations import (
    Activation,
    ConvAlgo,
    Exporter,
    Host,
    ImageLayout,
    S,
)  # fmt: skip
from sparkle_drv.ops.arguments.quoting import shown
from sparkle_drv.ops.calls import plans, table
from sparkle_drv.ops.calls.prepared_call import PreparedCall
from sparkle_drv.ops.memory import staging, weights
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.ops.shapes.geometry import Geometry, geometry
from sparkle_drv.ops.tiles import winograd as tiles_winograd
from sparkle_drv.types import TilePlan

ALGOS = ("auto", "naive", "direct", "im2col", "winograd", "winograd2", "winograd6")
"""The values of `algo`."""
WINOGRAD = tuple(tiles_winograd.EDGES)
PACKED = ("direct", *WINOGRAD)
"""Algorithms that read packed weights on devices that pack them."""
_PACK = "pack_conv2d_f32"


class Conv2d(CallableBase):
    """Computes y = activation(x * w + bias), the cross-correlation called convolution in networks.

    All arrays are float32. x is [n, c, h, w], or [n, h, w, c] with layout="NHWC". w is
    [oc, c/groups, kh, kw] in both layouts. bias is [oc]. y is [n, oc, oh, ow] or [n, oh, ow, oc].

    stride and dilation are a number or (vertical, horizontal). padding is a number,
    (vertical, horizontal), ((top, bottom), (left, right)), "valid" (none) or "same". With "same",
    oh = ceil(h / stride), and an odd rest of the padding goes to the bottom and right. activation
    is None, "relu", "tanh" or "sigmoid".

    algo is "auto", "naive" (the oracle), "direct" or "im2col". For some convolutions the cpu also
    has "winograd" (output tiles of 4 x 4) and "winograd2" (2 x 2). They need filters of 3 x 3,
    stride 1 or 2 in both directions, dilation 1 and one group. With stride 1 the cpu also has
    "winograd6" (6 x 6).

    "auto" uses Winograd's algorithms if they are faster. With stride 1 their largest error is about
    1e-5 of the output's rms, ten times the error of "direct"; with "winograd6" it is up to 7e-5.
    With stride 2 the error is about that of "direct". With these algorithms, values that are not
    finite spread. If a tile of outputs reads a NaN or infinity in x, every output of the tile can
    become NaN. A NaN or infinity in w can make every output of its channel NaN.

    With numpy arrays a call is synchronous and returns a numpy array. If an operand is an Array,
    the call runs asynchronously on dev.default_queue and returns an Array with `.fence` and
    `.layout` set. `out` may overlap an input.

    Each call reads its arrays again, even read-only ones. w may be a Constant (`ops.constant`): the
    cpu device packs a Constant once for each shape of x, if the algorithm reads packed weights. Any
    other w is packed in each call, if the algorithm reads packed weights.

    Raises TypeError (not arrays, not float32) and ValueError (shapes, an output without pixels).

    >>> x, w = np.ones((1, 1, 3, 3), np.float32), np.ones((1, 1, 2, 2), np.float32)
    >>> sp.ops.conv2d(dev, x, w)[0, 0]
    array([[4., 4.],
           [4., 4.]], dtype=float32)
    >>> sp.ops.conv2d(dev, x, w, padding="same", stride=2).shape
    (1, 1, 2, 2)
    """

    @overload
    def __call__(
        self, dev: Device, x: npt.NDArray[S], w: npt.NDArray[S] | Constant,
        bias: npt.NDArray[S] | Constant | None = None, out: npt.NDArray[S] | None = None, *,
        stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        activation: Activation = None, layout: ImageLayout = "NCHW", algo: ConvAlgo = "auto",
    ) -> npt.NDArray[S]: ...  # fmt: skip
    @overload
    def __call__(
        self, dev: Device, x: Array, w: Array | Host | Exporter | Constant,
        bias: Array | Host | Exporter | Constant | None = None, out: Array | None = None, *,
        stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        activation: Activation = None, layout: ImageLayout = "NCHW", algo: ConvAlgo = "auto",
    ) -> Array: ...  # fmt: skip
    @overload
    def __call__(
        self, dev: Device, x: Host | Exporter, w: Array,
        bias: Array | Host | Exporter | Constant | None = None, out: Array | None = None, *,
        stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        activation: Activation = None, layout: ImageLayout = "NCHW", algo: ConvAlgo = "auto",
    ) -> Array: ...  # fmt: skip
    @overload
    def __call__(
        self, dev: Device, x: Host | Exporter, w: Host | Exporter | Constant,
        bias: Array | Host | Exporter | Constant | None = None, out: Any = None, *,
        stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        activation: Activation = None, layout: ImageLayout = "NCHW", algo: ConvAlgo = "auto",
    ) -> Host | Array: ...  # fmt: skip
    def __call__(
        self,
        dev: Device,
        x: Any,
        w: Any,
        bias: Any = None,
        out: Any = None,
        *,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        activation: Activation = None,
        layout: ImageLayout = "NCHW",
        algo: ConvAlgo = "auto",
    ) -> Any:
        """Makes the call that the docstring of the class describes. @public"""
        values = (
            x, w, bias, out, stride, padding, dilation, groups, activation, layout, algo,
        )  # fmt: skip
        stage = staging.Stage(dev, {"x": x, "w": w, "bias": bias}, out, packs="w", optional="bias")
        x, w, bias = stage.inputs.values()
        shape = outline(x, w, bias, stride, padding, dilation, groups, layout)
        _check_algo(dev, shape, algo)
        act = check.activation(activation)
        y = stage.target(shape.out_shape, x.dtype, layout=layout)
        if shape.n and shape.oc:  # an empty output needs no plan
            function, tile = plans.conv2d(dev, shape, algo)
            if isinstance(w, Constant):
                function, tile, w = _packed(dev, w, shape, function, tile)
            pointers = [stage.pointer(given) for given in (x, w, bias)]
            stage.launch(function, y.pointer, *pointers, *shape.arguments(), act)
        made = stage.finish(y)
        return table.remember(stage, made, Conv2d.__call__, values, (3, 0, 1, 2), out=3)

    def __reduce__(self) -> str:
        return "conv2d"

    def plan(
        self,
        dev: Device,
        x_shape: Any,
        w: Any,
        bias: Any = None,
        *,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        activation: Activation = None,
        layout: ImageLayout = "NCHW",
        algo: ConvAlgo = "auto",
    ) -> Conv2dPlan:
        """Returns a Conv2dPlan for images of `x_shape` and these weights.

        The arguments are checked and the kernel is chosen once, here.

        w and bias are copied to the device now, so later changes have no effect. w is packed if the
        kernel reads packed weights. A Constant is not copied and must stay open. A wrong argument
        raises TypeError or ValueError, as in a call.
        """
        staging.device(dev)
        w = staging.readable("w", w, dev)
        if bias is not None:
            bias = staging.readable("bias", bias, dev)
        extents = _extents(x_shape)
        shape = geometry(extents, w.shape, stride, padding, dilation, groups, layout)
        if not (shape.n and shape.oc):
            raise ValueError(
                "x_shape: expected 1 or more images and output channels, "
                f"got x {extents} and w {w.shape}"
            )
        _weights(w, bias, shape)
        _check_algo(dev, shape, algo)
        act = check.activation(activation)
        function, tile = plans.conv2d(dev, shape, algo)
        function, tile, packed = _packed(dev, weights.kept(dev, "w", w), shape, function, tile)
        prepared = _Plan(
            Conv2dPlan.__call__, dev.default_queue, function, tile, (*shape.arguments(), act)
        )
        prepared.w, prepared.out_shape, prepared.bias = packed, shape.out_shape, None
        if bias is not None:
            prepared.bias = weights.kept(dev, "bias", bias).array("bias", dev)
        return prepared


class Conv2dPlan(PreparedCall):
    """A prepared conv2d: `plan(x, out) -> Fence` has no checks or lookups per call.

    `out` has shape `out_shape`. Operands are row-major float32 Arrays or Buffers of exactly the
    planned shape; on unified devices also numpy arrays. Every call is asynchronous: wait for the
    fence before reading `out`. Raises ValueError if `out` shares memory with `x`, `w` or `bias`.

    `bind` prepares one launch. `w` and `bias` are the copies on the device. `kernel` runs on
    `queue`. `tile` is the kernel's TilePlan; `tile.source` says whether the plan was tuned.
    """

    __slots__ = ("bias", "out_shape", "w")
    w: Array
    bias: Array | None
    out_shape: tuple[int, ...]
    _SOURCES = 1, 0

    def __call__(self, x: Any, out: Any) -> Fence:
        """Makes the call that the docstring of the class describes. @public"""
        return self._launch(x, out)

    def _pointers(self, x: Any, out: Any) -> tuple[Any, ...]:
        return out, *self._arrays(x=x), self.w, self.bias

    def bind(self, x: Any, out: Any) -> Any:
        """Returns a prepared launch for these Arrays or Buffers; a call returns a timeline value.

        `queue.fence(value)` gives the fence. Raises the errors of a call of the plan.
        """
        return self._prepare(x, out)


_Plan = direct(Conv2dPlan)


def _extents(shape: Any) -> tuple[int, ...]:
    try:
        extents = tuple(shape)
    except TypeError:
        raise TypeError(f"x_shape: expected four whole numbers, got {shown(shape)}") from None
    return tuple(check.whole("x_shape", extent, 0) for extent in extents)


def outline(
    x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any, layout: Any
) -> Geometry:
    """Returns the geometry of a convolution of these operands. Raises the errors of Conv2d."""
    check.dtype("conv2d", "x", x.dtype, ("f32",))
    known = getattr(x, "layout", None)
    if known not in (None, layout):
        raise ValueError(
            f"layout: expected {known!r}, which is the layout of x, got {shown(layout)}"
        )
    shape = geometry(x.shape, w.shape, stride, padding, dilation, groups, layout)
    _weights(w, bias, shape)
    return shape


def _weights(w: Any, bias: Any, shape: Geometry) -> None:
    """Raises TypeError for a wrong dtype of w or bias, ValueError for a wrong shape of bias."""
    check.dtype("conv2d", "w", w.dtype, ("f32",))
    if bias is not None:
        check.dtype("conv2d", "bias", bias.dtype, ("f32",))
        check.shape("bias", bias.shape, (shape.oc,), f"for the {shape.oc} output channels of w")


def check_algo(shape: Geometry, algo: Any) -> None:
    """Raises ValueError for an unknown algorithm, or one that cannot compute this geometry."""
    check.one_of("algo", algo, ALGOS)
    edge = tiles_winograd.EDGES.get(algo)
    if edge and not tiles_winograd.fits(shape, edge):
        strides = "stride 1" if edge == 6 else "stride 1 or 2"
        raise ValueError(
            f"algo: {algo!r} needs filters of 3 x 3, {strides}, dilation 1 and one group, "
            f"got filters of {shape.kernel}, stride {shape.stride}, dilation {shape.dilation} and "
            f"groups {shape.groups}"
        )


def _check_algo(dev: Device, shape: Geometry, algo: str) -> None:
    check_algo(shape, algo)
    if algo in WINOGRAD and not packs(dev):
        raise ValueError(f"algo: expected a cpu device for {algo!r}, got {dev.uri}")


def packs(dev: Device) -> bool:
    """Returns whether this device can pack weights for the algorithms in PACKED.

    A device that cannot pack weights does not have the algorithms in WINOGRAD.
    """
    return dev.provides(_PACK)


def _packed(
    dev: Device, w: Constant, shape: Geometry, function: Kernel, tile: TilePlan | None
) -> tuple[Kernel, TilePlan | None, Array]:
    """Returns the kernel, its plan, and the weights: packed if the algorithm reads them packed."""
    depthwise = shape.groups == shape.c == shape.oc  # such a convolution reads unpacked weights
    if tile is None or tile.algo not in PACKED or depthwise or not packs(dev):
        return function, tile, w.array("w", dev)
    packing = replace(tile, pack=True)
    blob = weights.packed(dev, w, (shape, packing), _PACK, packing, *shape.arguments())
    return plans.packed(dev, function, tile), packing, blob


conv2d = table.operation(Conv2d)
