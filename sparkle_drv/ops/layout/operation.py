"""layout: converts images from one memory layout to another.

Layouts are "NCHW", "NHWC" and "NCHW8c" with any block of 1 to 64 for the 8, which is
`[n, ceil(c/block), h, w, block]` with zeros after the last channel. A conversion from or to NCHW
takes one kernel. Any other conversion goes by way of NCHW and takes two kernels. Types other than
float32 use strided copies (strided_copies.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.annotations import Exporter, Host, S
from sparkle_drv.ops.arguments.quoting import shown
from sparkle_drv.ops.calls import table
from sparkle_drv.ops.map.operation import convert, through
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import Constant

from . import strided_copies

Shape = tuple[int, ...]
MAX_BLOCK = 64
"""The most channels of a block."""


class Layout(NamedTuple):
    """A layout. `block` is the number of channels in a block, 0 for NCHW and NHWC."""

    name: str
    block: int = 0

    @property
    def kind(self) -> str:
        """The word for this layout in the names of kernels."""
        return "blocked" if self.block else self.name.lower()

    def check(self, name: str, shape: Shape) -> None:
        """Raises ValueError if an array of this layout cannot have this shape."""
        plain = {"NCHW": "(n, c, h, w)", "NHWC": "(n, h, w, c)"}
        axes = plain.get(self.name, f"(n, blocks, h, w, {self.block})")
        check.dims(name, shape, 5 if self.block else 4, axes)
        if self.block and shape[4] != self.block:
            raise ValueError(f"{name}: expected shape {axes} for {self.name}, got {shape}")

    def shape(self, n: int, c: int, h: int, w: int) -> Shape:
        """Returns the shape of n images of c channels, h x w."""
        if self.block:
            return n, -(-c // self.block), h, w, self.block
        return (n, h, w, c) if self.name == "NHWC" else (n, c, h, w)


def parse(name: str, text: Any) -> Layout:
    """Returns the Layout "NCHW", "NHWC", or "NCHW8c" with any block of 1 to 64.

    Raises ValueError for any other string, TypeError for an object that is no string.
    """
    known = re.fullmatch(r"NCHW|NHWC|NCHW([1-9][0-9]?)c", text) if isinstance(text, str) else None
    block = int(known[1] or 0) if known else MAX_BLOCK + 1
    if block > MAX_BLOCK:
        kind = ValueError if isinstance(text, str) else TypeError
        raise kind(
            f'{name}: expected "NCHW", "NHWC", or "NCHW8c" with any block of 1 to {MAX_BLOCK} '
            f"for the 8, got {shown(text)}"
        )
    return Layout(text, block)


@overload
def layout(
    dev: Device, a: npt.NDArray[S], target: str, *, source: str | None = None,
    channels: int | None = None, out: npt.NDArray[S] | None = None,
) -> npt.NDArray[S]: ...  # fmt: skip
@overload
def layout(
    dev: Device, a: Array, target: str, *, source: str | None = None,
    channels: int | None = None, out: Array | None = None,
) -> Array: ...  # fmt: skip
@overload
def layout(
    dev: Device, a: Exporter | Constant, target: str, *, source: str | None = None,
    channels: int | None = None, out: Array | Host | Exporter | None = None,
) -> Host | Array: ...  # fmt: skip
def layout(
    dev: Device, a: Any, target: str, *, source: str | None = None, channels: int | None = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """Returns `a` in the layout `target`: "NCHW", "NHWC", or "NCHW8c" with any block of 1 to 64.

    a is float32, float64, int32, int64, float16, bfloat16, uint8 or bool. If a device does not move
    elements of 1 or 2 bytes (egl), the host converts them to float32 and back.

    The layout of `a` is its own `.layout` if it is an Array that has one, otherwise `source`. If
    neither is given, five dimensions mean a blocked layout. Four dimensions mean NHWC for target
    "NCHW", NCHW for other targets. channels: the number of real channels in a blocked array, by
    default all. Further channels are padding and are dropped.

    With a numpy array a call is synchronous and returns a new numpy array. With an Array it is
    asynchronous and returns a new Array with `.layout`. If `out` is given, the call fills and
    returns `out`, which may overlap `a`. Raises TypeError for an argument or dtype that it does not
    take, ValueError for an unknown layout or a shape that does not fit the layout.

    >>> x = np.zeros((1, 3, 8, 8), np.float32)
    >>> sp.ops.layout(dev, x, "NHWC").shape
    (1, 8, 8, 3)
    >>> sp.ops.layout(dev, x, "NCHW8c").shape
    (1, 1, 8, 8, 8)
    """
    staging.device(dev)
    values = a, target, source, channels, out
    found = table.again(dev, (layout, dev, *values))
    if found is not None:
        return found
    stage = staging.Stage(dev, {"a": a}, out)
    (a,) = stage.inputs.values()
    change = outline(a, target, source, channels, check.TYPES)
    own, dtype = check.tag_of(np.dtype(a.dtype)), np.dtype(a.dtype)
    if own != "f32" and change.steps and not dev.provides(strided_copies.kernel_name(dtype)):
        if out is not None:
            staging.check_out(stage.out, change.shape, dtype, change.after.name)
        how: Any = {"source": change.before.name, "channels": channels}
        return through(
            dev, "layout", a, "f32",
            lambda a: convert(dev, layout(dev, a, target, **how), own, out),
        )  # fmt: skip
    if not change.steps:
        return stage.copy(a, change.after.name)
    current: Any = stage.pointer(a)
    for before, way in change.steps:
        where = stage.target if way == change.after else stage.temporary
        output = where(way.shape(*change.sizes), a.dtype, layout=way.name)
        if 0 in output.pointer.shape:
            pass
        elif own != "f32":
            blocks = [x.block or change.sizes[1] * (x.name == "NHWC") for x in (way, before)]
            strided_copies.change(
                stage, output.pointer, current, change.sizes, (blocks[0], blocks[1])
            )
        else:
            function = staging.kernel(dev, f"{before.kind}_to_{way.kind}_f32")
            blocks = [x.block for x in (before, way) if x.block]
            stage.launch(function, output.pointer, current, *change.sizes, *blocks)
        current = output.pointer
    result = stage.finish(output)
    if own != "f32":
        return result
    return table.remember(stage, result, layout, values, (4, 0), out=4)


@dataclass(frozen=True)
class LayoutChange:
    """A conversion between layouts, as steps that take one kernel each."""

    before: Layout
    after: Layout
    sizes: tuple[int, int, int, int]
    """(n, c, h, w)."""
    steps: tuple[tuple[Layout, Layout], ...]
    """(from, to) of each kernel; empty for a plain copy."""

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return self.after.shape(*self.sizes)


def outline(
    a: Any, target: Any, source: Any, channels: Any, takes: tuple[str, ...] = ("f32",)
) -> LayoutChange:
    """Returns the conversion of an array with the shape, dtype and layout (if any) of `a`.

    Raises the errors of `layout`.
    """
    check.dtype("layout", "a", a.dtype, takes)
    after = parse("target", target)
    before = _source(a, after, source)
    sizes = _sizes(a, before, channels)
    same = before == after and channels is None
    middle = Layout("NCHW")
    steps = () if same else ((before, middle), (middle, after))
    return LayoutChange(before, after, sizes, tuple(step for step in steps if step[0] != step[1]))


def _source(a: Any, after: Layout, source: Any) -> Layout:
    own = getattr(a, "layout", None)  # a numpy array has no layout
    if source is not None and own not in (None, source):
        raise ValueError(f"source: expected {own}, the layout of a, got {shown(source)}")
    if own or source:
        before = parse("source", source or own)
    elif len(a.shape) == 5 and 1 <= a.shape[4] <= MAX_BLOCK:
        before = Layout(f"NCHW{a.shape[4]}c", a.shape[4])
    else:
        before = Layout("NHWC" if after.name == "NCHW" else "NCHW")
    before.check("a", a.shape)
    return before


def _sizes(a: Any, before: Layout, channels: Any) -> tuple[int, int, int, int]:
    """Returns (n, c, h, w) of the images in `a`, whose layout is `before`."""
    for extent in a.shape:
        check.size("a", extent)
    if not before.block:
        if channels is not None:
            raise ValueError(
                f"channels: expected an array in a blocked layout, got one in {before.name}"
            )
        n, c, h, w = a.shape if before.name == "NCHW" else (a.shape[i] for i in (0, 3, 1, 2))
        return n, c, h, w
    n, blocks, h, w, block = a.shape
    most = check.size("a", blocks * block)
    if channels is None:
        return n, most, h, w
    c = check.whole("channels", channels, 0)
    if -(-c // block) != blocks:
        raise ValueError(
            f"channels: expected {max(0, most - block + 1)} to {most} in {blocks} blocks of "
            f"{block}, got {c}"
        )
    return n, c, h, w
