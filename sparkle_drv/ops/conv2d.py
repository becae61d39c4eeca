"""conv2d: 2-D cross-correlation in f32, NCHW or NHWC, with bias and activation.

Checks arguments (geometry.py), asks plans.py for a plan and launches conv2d_f32.
"""

from __future__ import annotations

from typing import Any

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.types import TilePlan

from . import check, plans, staging
from .geometry import Geometry, geometry

ALGOS = ("auto", "naive", "direct", "im2col")
"""What `algo` may be."""


class Conv2d:
    """activation(x * w + bias), the cross-correlation that networks call a convolution.

    All float32: x [n, c, h, w], or [n, h, w, c] with layout="NHWC"; w [oc, c/groups, kh, kw] in
    either case; bias [oc]; y [n, oc, oh, ow] or [n, oh, ow, oc].

    stride, dilation: a number or (vertical, horizontal). padding: the same, or
    ((top, bottom), (left, right)), "valid" (none) or "same": oh = ceil(h / stride), what is odd
    goes to the bottom and right. activation: None, "relu", "tanh" or "sigmoid". algo: "auto",
    "naive" (the oracle), "direct" or "im2col".

    numpy arrays in: synchronous, a numpy array out. Any Array among them: asynchronous on
    dev.default_queue, an Array out whose `.fence` and `.layout` are set. `out` may overlap an
    input.

    Raises TypeError (not arrays, not float32) and ValueError (shapes, an output without a pixel).
    """

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
        activation: str | None = None,
        layout: str = "NCHW",
        algo: str = "auto",
    ) -> Any:
        """What the class says. @public"""
        staging.device(dev)
        x, w = staging.operand("x", x), staging.operand("w", w)
        check.dtype("conv2d", "x", x.dtype, ("f32",))
        if isinstance(x, Array) and x.layout not in (None, layout):
            raise ValueError(f"x: it is {x.layout}, say layout={x.layout!r}; got layout={layout!r}")
        shape = geometry(x.shape, w.shape, stride, padding, dilation, groups, layout)
        bias = _weights(w, bias, shape)
        function, _ = _function(dev, shape, algo)
        act = check.activation(activation)

        stage = staging.Stage(dev, {"x": x, "w": w, "bias": bias}, out)
        y = stage.target(shape.out_shape, x.dtype, layout=layout)
        if shape.n and shape.oc:
            pointers = [stage.pointer(each) for each in (x, w, bias)]
            stage.launch(function, y.pointer, *pointers, *shape.arguments(), act)
        return stage.finish(y)

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
        activation: str | None = None,
        layout: str = "NCHW",
        algo: str = "auto",
    ) -> Conv2dPlan:
        """Everything decided once for images of `x_shape` and these weights: see Conv2dPlan.

        The weights are copied to the device now.
        """
        staging.device(dev)
        w = staging.operand("w", w)
        extents = tuple(check.whole("x_shape", extent, 0) for extent in x_shape)
        shape = geometry(extents, w.shape, stride, padding, dilation, groups, layout)
        if not (shape.n and shape.oc):
            raise ValueError(
                f"x_shape: a plan for no output at all, got {extents} with w {w.shape}"
            )
        bias = _weights(w, bias, shape)
        held = [given if given is None else dev.array(given) for given in (w, bias)]
        function, tile = _function(dev, shape, algo)
        act = check.activation(activation)
        return Conv2dPlan(dev, function, tile, shape, (held[0], held[1], act))


class Conv2dPlan:
    """`plan(x, out) -> Fence` without checks or lookups per call; `out` has shape `out_shape`.

    Operands are row-major Arrays, Buffers or, on devices with unified memory, numpy arrays of
    exactly the planned shape, float32. Asynchronous for all of them: wait for the fence before
    reading `out`. `bind` goes further and prepares one launch. `w` and `bias` are the copies on the
    device, `kernel` is what runs, `queue` where, `tile` the TilePlan that it was made for;
    `tile.source` says whether that was tuned.
    """

    __slots__ = ("_launch", "_tail", "bias", "kernel", "out_shape", "queue", "tile", "w")

    def __init__(
        self,
        dev: Device,
        kernel: Kernel,
        tile: TilePlan | None,
        shape: Geometry,
        held: tuple[Any, Any, int],
    ) -> None:
        w, bias, act = held
        self.kernel = kernel
        self.tile = tile
        self.queue = dev.default_queue
        self.w, self.bias = w, bias
        self.out_shape = shape.out_shape
        self._launch = self.queue.launch
        self._tail = (w, bias, *shape.arguments(), act)

    def __call__(self, x: Any, out: Any) -> Fence:
        return self._launch(self.kernel, out, x, *self._tail)

    def bind(self, x: Any, out: Any) -> Any:
        """A prepared launch for these Arrays or Buffers: called, it returns a timeline value.

        `queue.fence(value)` is its fence.
        """
        return self.queue.prepare(self.kernel, out, x, *self._tail)


def _weights(w: staging.Operand, bias: Any, shape: Geometry) -> staging.Operand | None:
    """Checks w and bias; the bias as an operand."""
    check.dtype("conv2d", "w", w.dtype, ("f32",))
    if bias is None:
        return None
    checked = staging.operand("bias", bias)
    check.dtype("conv2d", "bias", checked.dtype, ("f32",))
    check.shape("bias", checked.shape, (shape.oc,), f"for the {shape.oc} output channels of w")
    return checked


def _function(dev: Device, shape: Geometry, algo: str) -> plans.Chosen:
    check.one_of("algo", algo, ALGOS)
    return plans.conv2d(dev, shape, algo)


conv2d = Conv2d()
