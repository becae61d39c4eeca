"""The geometry of a convolution: strides, padding and sizes from a caller's arguments.

`geometry` takes shapes and options, and returns a Geometry or raises. Calls and plans of conv2d use
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.quoting import shown

LAYOUTS = ("NCHW", "NHWC")
FORM = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": "NCHW"}
"""The arguments of `geometry` beside shapes, with the defaults of conv2d."""


@dataclass(frozen=True)
class Geometry:
    """The sizes that the kernel conv2d_f32 takes; pairs are (vertical, horizontal).

    x has `n` images of `c` channels, `h` x `w`. `kernel` is the size of the filters. `size` is the
    size of the `oc` output channels. `pad` is the padding above and to the left.
    """

    n: int
    c: int
    h: int
    w: int
    oc: int
    kernel: tuple[int, int]
    size: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    layout: str

    @property
    def out_shape(self) -> tuple[int, int, int, int]:
        """The shape of the output in its layout."""
        oh, ow = self.size
        return (self.n, oh, ow, self.oc) if self.layout == "NHWC" else (self.n, self.oc, oh, ow)

    @property
    def terms(self) -> int:
        """The number of products in the sum of each output."""
        return self.c // self.groups * self.kernel[0] * self.kernel[1]

    @property
    def winograd(self) -> bool:
        """True if Winograd's algorithms can compute this convolution."""
        once = (*self.dilation, self.groups) == (1, 1, 1)
        return self.kernel == (3, 3) and self.stride in ((1, 1), (2, 2)) and once

    def arguments(self) -> tuple[int, ...]:
        """Returns the scalar arguments of a launch, without the activation."""
        return (
            self.n, self.c, self.h, self.w, self.oc, *self.kernel, *self.size, *self.stride,
            *self.pad, *self.dilation, self.groups, int(self.layout == "NHWC"),
        )  # fmt: skip


def geometry(
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    layout: Any,
) -> Geometry:
    """Returns the Geometry for the shapes of x and w and the arguments of conv2d.

    Raises TypeError or ValueError, which name the argument.
    """
    check.one_of("layout", layout, LAYOUTS)
    nhwc = layout == "NHWC"
    check.dims("x", x, 4, "(n, h, w, c)" if nhwc else "(n, c, h, w)")
    check.dims("w", w, 4, "(oc, c/groups, kh, kw)")
    n, c, *image = (x[0], x[3], x[1], x[2]) if nhwc else x
    oc, per_group, *kernel = w
    groups = check.whole("groups", groups, 1)
    strides = check.pair("stride", stride, 1)
    dilations = check.pair("dilation", dilation, 1)
    for name, shape, of in (("x", x, (c, *image)), ("w", w, kernel)):
        if 0 in of:
            raise ValueError(
                f"{name}: expected 1 or more in all dimensions except batch and output "
                f"channels, got shape {shape}"
            )
    for value in (*x, *w):
        check.size("x or w", value, check.I32)
    if c % groups or oc % groups:
        raise ValueError(f"groups: {groups} does not divide both c = {c} and oc = {oc}")
    if per_group != c // groups:
        raise ValueError(
            f"w: expected shape {(oc, c // groups, *kernel)} for {c} channels in {groups} "
            f"group(s), got {w}"
        )
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _padding(padding, image, reach, strides)
    sizes = []
    for i, name in enumerate(("height", "width")):
        room = check.size("padding", image[i] + sum(pads[i]), check.I32)
        if room < reach[i]:
            raise ValueError(
                f"x: the output would have no {name}: {image[i]} pixels and {sum(pads[i])} of "
                f"padding are less than the {reach[i]} that w spans with dilation {dilations[i]}"
            )
        sizes.append((room - reach[i]) // strides[i] + 1)
    return Geometry(
        n, c, image[0], image[1], oc, (kernel[0], kernel[1]), (sizes[0], sizes[1]), strides,
        (pads[0][0], pads[1][0]), dilations, groups, layout,
    )  # fmt: skip


def _padding(
    padding: Any, extents: list[int], reach: list[int], stride: tuple[int, int]
) -> list[tuple[int, int]]:
    """Returns the padding as [(top, bottom), (left, right)]."""
    if isinstance(padding, str):
        check.one_of("padding", padding, ("same", "valid"))
        if padding == "valid":
            return [(0, 0)] * 2
        # "same" gives ceil(extent / step) outputs. If the padding is odd, the bottom or right gets
        # one pixel more.
        axes = zip(extents, reach, stride, strict=True)
        totals = [max(0, (-(-n // step) - 1) * step + span - n) for n, span, step in axes]
        return [(total // 2, total - total // 2) for total in totals]
    pairs = (
        [isinstance(p, (tuple, list)) for p in padding]
        if isinstance(padding, (tuple, list))
        else []
    )
    if not any(pairs):
        return [(p, p) for p in check.pair("padding", padding, 0)]
    if pairs != [True, True]:
        raise ValueError(f"padding: expected ((top, bottom), (left, right)), got {shown(padding)}")
    return [check.pair("padding", sides, 0) for sides in padding]
