"""The operations that the scheduler places: the class and size of a call, and how a class is
probed.

A *class* of work has one speed on a device, as a function of size. Work of another kind has a class
of its own. For example, a matrix times a few vectors is not in the class of large products, since
memory bounds its speed. A 3x3 and a 1x1 convolution have different classes, since they have
different algorithms. A class is probed when it first occurs, unless it is predicted from others
(expressions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.layout.operation import parse
from sparkle_drv.ops.shapes.geometry import Geometry

THIN = 16.0
"""Operations per byte touched below which a product counts as bound by memory."""
Runs = tuple[Callable[[], Any], float]
"""A probe of a class of work: (a function that begins the work, the size of the work).

The work resembles real calls. Where host memory needs no copy it takes numpy arrays and waits,
otherwise it takes Arrays. It also allocates a result, which for small work takes as long as the
work."""


@dataclass(frozen=True)
class Class:
    """A class of work, and how it is probed."""

    name: str
    """The key of the class's speeds: "gemm_f32", "conv2d_f32:3x3"."""
    probe: Callable[[Device, int], Runs] | None = None
    """Returns the n-th probe, from 0, for (device, n). Each is about four times as large as the
    last. None if the class is predicted."""
    predicted: Predicted | None = None
    """How the class's speed follows from other classes; None if the class is probed."""

    def lacking(self, devices: Iterable[Device]) -> dict[str, str]:
        """Returns, by URI, why a device has no kernel for the call that this class was made for.

        The answer holds only for this call: the device may have a kernel for another call of the
        class. If the class is probed and not predicted, the result is {}: its probe fails on a
        device without a kernel.
        """
        if self.predicted is None:
            return {}
        found = {}
        for device in devices:
            try:
                self.predicted.able(device)
            except (ValueError, TypeError, LookupError) as error:
                found[device.uri] = str(error).partition("\n")[0]
        return found


@dataclass(frozen=True)
class Predicted:
    """The classes from whose times the time of a class is predicted. They are measured when the
    first class that needs them occurs.
    """

    base: Class
    """The class whose time for the same size is part of the time."""
    terms: tuple[tuple[Class, float], ...]
    """Other classes, with factors. For each, the time that it takes beyond `base` is multiplied by
    the factor and added."""
    able: Callable[[Device], None]
    """Raises TypeError, ValueError or LookupError if the device cannot do the call that the class
    was made for. Runs nothing."""


def gemm_class(m: int, n: int, k: int, dtype: Any) -> tuple[Class, float]:
    """Returns the class of a product, and its size: the number of floating-point operations."""
    kind = np.dtype(dtype)
    flops = 2.0 * m * n * k
    thin = flops < THIN * kind.itemsize * (m * k + k * n + m * n) and min(m, n) <= 32 < max(m, n)
    name = f"gemm_{check.tag_of(kind)}"
    if not thin:
        return Class(name, lambda dev, i: _square(dev, 16 * 2**i, kind)), flops
    return Class(f"{name}:thin", lambda dev, i: _thin(dev, 64 * 2**i, kind)), flops


def _square(dev: Device, side: int, kind: np.dtype[Any]) -> Runs:
    a, b = (filled(dev, (side, side), kind) for _ in range(2))
    return lambda: ops.gemm(dev, a, b), 2.0 * side**3


def _thin(dev: Device, side: int, kind: np.dtype[Any]) -> Runs:
    a, b = filled(dev, (4, side), kind), filled(dev, (side, side), kind)
    return lambda: ops.gemm(dev, a, b), 2.0 * 4 * side * side


def conv2d_class(shape: Geometry) -> tuple[Class, float]:
    """Returns the class of a convolution, and its size: the number of floating-point operations."""
    oh, ow = shape.size
    flops = 2.0 * shape.n * shape.oc * oh * ow * shape.terms
    kh, kw = shape.kernel
    if shape.groups > 1:
        kind = "depthwise" if shape.groups == shape.c else "grouped"
    elif (kh, kw) == (3, 3) and shape.stride == (1, 1) and shape.dilation == (1, 1):
        kind = "3x3"
    else:
        kind = "1x1" if (kh, kw) == (1, 1) else "other"
    layout = "" if shape.layout == "NCHW" else f":{shape.layout}"
    like = {"3x3": (3, 1), "1x1": (1, 1), "other": (5, 1), "depthwise": (3, 0), "grouped": (3, 4)}
    filters, groups = like[kind]
    name = f"conv2d_f32:{kind}{layout}"
    return Class(name, lambda dev, i: _image(dev, i, filters, groups, shape.layout)), flops


def _image(dev: Device, i: int, filters: int, groups: int, layout: Any) -> Runs:
    """Returns the i-th probe of a convolution. The image starts at 7 by 7 pixels and 16 channels;
    from probe to probe, the channels and the sides double in turns. `filters` is the side of a
    filter. `groups` 0 means one group per channel.
    """
    side, channels = 7 * 2 ** (i // 2), 16 * 2 ** ((i + 1) // 2)
    each = groups or channels
    image = (1, channels, side, side) if layout == "NCHW" else (1, side, side, channels)
    x = filled(dev, image, np.dtype(np.float32), layout)
    w = filled(dev, (channels, channels // each, filters, filters), np.dtype(np.float32))
    flops = 2.0 * channels * side * side * (channels // each) * filters * filters

    def run() -> Any:
        return ops.conv2d(dev, x, w, padding=filters // 2, groups=each, layout=layout)

    return run, flops


def reduce_class(op: Any, dtype: Any) -> Class:
    """Returns the class of a reduction. The size of such a call is the bytes of its operand."""
    kind = np.dtype(dtype)

    def probe(dev: Device, i: int) -> Runs:
        x = filled(dev, (1024 * 4**i,), kind)
        return lambda: ops.reduce(dev, x, op), float(x.nbytes)

    return Class(f"reduce_{op}_{check.tag_of(kind)}", probe)


def layout_class(source: str, to: str) -> Class:
    """Returns the class of calls that change a layout, blocked layouts included. The size of such a
    call is the bytes of its operand.
    """
    before = parse("source", source)

    def probe(dev: Device, i: int) -> Runs:
        side = 8 * 2**i
        x = stored(dev, before.shape(1, 16, side, side), np.dtype(np.float32), source)
        channels = 16 if before.block else None
        return lambda: ops.layout(dev, x, to, channels=channels), float(x.nbytes)

    return Class(f"layout_f32:{source}:{to}", probe)


def filled(
    dev: Device, shape: tuple[int, ...], kind: np.dtype[Any], layout: str | None = None
) -> Any:
    """Returns an operand of a probe: a numpy array where host memory needs no copy, else an
    Array.
    """
    return _values(shape, kind) if dev.info.unified else stored(dev, shape, kind, layout)


def stored(
    dev: Device, shape: tuple[int, ...], kind: np.dtype[Any], layout: str | None = None
) -> Array:
    """Returns a new Array on the device with random values, as an operand of a probe."""
    return dev.array(_values(shape, kind), layout)


def _values(shape: tuple[int, ...], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns random values between 0.5 and 1.5, in a block that repeats. Work on zeros could be
    faster than real work.
    """
    block = (np.random.default_rng(shape).random(4099) + 0.5).astype(kind)
    return np.resize(block, shape)
