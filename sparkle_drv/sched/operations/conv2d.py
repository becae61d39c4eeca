"""The convolution of images. It works in the layout of its image, or in the one that the caller
names; the image is then changed first, on the device that does the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.conv2d.operation import WINOGRAD, check_algo, outline, packs
from sparkle_drv.ops.layout.operation import outline as change_outline
from sparkle_drv.ops.shapes.geometry import FORM, LAYOUTS, Geometry, geometry
from sparkle_drv.sched.model.task import Conversion, Task, Value
from sparkle_drv.sched.model.work_class import Class, Runs, filled
from sparkle_drv.sched.shard.cuts import Cut

from . import verify
from .layout import LAYOUT
from .operation import Arguments, Host, Request, is_free, value_of
from .product import Product, row

_PROBES = {"3x3": (3, 1), "1x1": (1, 1), "other": (5, 1), "depthwise": (3, 0), "grouped": (3, 4)}
"""For each kind of convolution: the side of the filters and the groups of its probes. 0 groups
means one group per channel."""


class Conv2dOperation(Product):
    """args: x, w, bias or None. named: options."""

    name = "conv2d"
    function = staticmethod(ops.conv2d)
    weights = "w"

    def arguments(
        self, x: Any, w: Any, bias: Any = None, out: Any = None, **named: Any
    ) -> Arguments:
        return (x, w, bias), named, out

    def request(self, args: tuple[Any, ...], named: dict[str, Any]) -> Request:
        x, w, bias = (*args, None)[:3]
        own = getattr(x, "layout", None)
        if own is None:
            return Request(self, (x, w, bias), named)
        named = {"layout": own if own in LAYOUTS else "NCHW", **named}
        conversion = None
        if own != named["layout"] and hasattr(w, "shape"):
            conversion = change(value_of(0, x), w, named.get("groups", 1), named["layout"])
        request = Request(self, (x, w, bias), named, conversion=conversion)
        request.is_direct = False
        return request

    def operands(self, request: Request) -> dict[str, Any]:
        x, w, bias = request.args
        return {"x": x, "w": w} if bias is None else {"x": x, "w": w, "bias": bias}

    def is_placeable(self, request: Request) -> bool:
        x, w, _ = request.args
        form = _form(request.named)
        try:
            shape = x.shape if request.conversion is None else request.conversion.task.out.shape
            geometry(shape, w.shape, **form)
        except (AttributeError, TypeError, ValueError):
            if request.conversion is not None:
                raise
            return False
        free = all(is_free(x) for x in (*request.operands.values(), request.out) if x is not None)
        return free and request.named.keys() <= {*form, "activation", "algo"}

    def task_of(self, request: Request, reads: Mapping[str, Value]) -> Task:
        if request.conversion is not None:
            reads = {**reads, "x": request.conversion.task.out}
        return self.task(reads, request.named)

    def task(self, reads: Mapping[str, Value], options: Mapping[str, Any]) -> Task:
        """Returns the Task of a convolution. Raises as `ops` does."""
        form = _form(options)
        shape = outline(reads["x"], reads["w"], reads.get("bias"), **form)
        check_algo(shape, options.get("algo", "auto"))
        check.activation(options.get("activation"))
        out = Value(-1, shape.out_shape, reads["x"].dtype, shape.layout)
        return Task(self.name, reads, out, {**options, **form})

    def work_class(self, task: Task) -> tuple[Class, float]:
        """The size is the number of floating-point operations."""
        shape = geometry_of(task)
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
        filters, groups = _PROBES[kind]
        name = f"{self.name}_f32:{kind}{layout}"
        return Class(name, lambda dev, i: _image(dev, i, filters, groups, shape.layout)), flops

    def cuts(self, task: Task, combine: str = "none") -> list[Cut]:
        """Its images, and its output channels if there are no groups."""
        shape, layout = geometry_of(task), task.options["layout"]
        whole: dict[str, int | None] = {"bias": None} if "bias" in task.reads else {}
        cut = dict.fromkeys(whole, 0)
        ways = [Cut("images", shape.n, {"x": 0, "w": None, **whole}, 0)]
        if shape.groups == 1 and layout in LAYOUTS:
            axis = layout.index("C")
            ways.append(Cut("channels", shape.oc, {"x": None, "w": 0, **cut}, axis))
        return ways

    def launch(self, device: Device, task: Task, reads: Mapping[str, Any], out: Any = None) -> Any:
        bias = row(reads.get("bias"))
        return ops.conv2d(device, reads["x"], reads["w"], bias, out, **task.options)

    def wrong(self, task: Task, got: Host, reads: Mapping[str, Host], chance: Any) -> str:
        given = reads["x"], reads["w"], row(reads.get("bias"))
        activation = task.options.get("activation")
        return verify.convolution(got, given, chance, geometry_of(task), activation)

    def refusal(self, task: Task, device: Device) -> str:
        algo = task.options.get("algo")
        unable = algo in WINOGRAD and not packs(device)
        return f"algo {algo!r} is there on the cpu only" if unable else ""

    def channels(self, task: Task) -> int:
        return -1 if task.options["layout"] == "NHWC" else 1

    def scaled(self, weights: Any, scale: Any) -> Any:
        return weights * scale.reshape(-1, 1, 1, 1)

    def along(self, task: Task) -> list[str] | str:
        return ["x"]

    def images(self, task: Task) -> dict[str, Value]:
        return {"x": task.reads["x"]} if task.options.get("algo", "auto") == "auto" else {}

    def in_layout(self, task: Task, layout: str) -> dict[str, Any]:
        return {**task.options, "layout": layout}


def _form(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options.get(name, usual) for name, usual in FORM.items()}


def geometry_of(task: Task) -> Geometry:
    """Returns the geometry of a convolution."""
    return geometry(task.reads["x"].shape, task.reads["w"].shape, **_form(task.options))


def change(x: Value, w: Any, groups: Any, layout: Any) -> Conversion | None:
    """Returns the change of an image to the layout in which its convolution works. Returns None if
    the image has this layout already, or has no layout. Raises as `ops.conv2d` does.

    `w` are the filters. Their shape says how many channels of a blocked image are no padding.
    """
    if x.layout in (None, layout):
        return None
    check.one_of("layout", layout, LAYOUTS)
    check.dims("w", w.shape, 4, "(oc, c/groups, kh, kw)")
    channels = None
    if x.layout not in LAYOUTS:
        channels = w.shape[1] * check.whole("groups", groups, 1)
    change_outline(x, layout, None, channels)
    return Conversion("x", LAYOUT.task({"a": x}, {"target": layout, "channels": channels}))


def _image(dev: Device, i: int, filters: int, groups: int, layout: Any) -> Runs:
    """Returns the i-th probe of a convolution. The image starts at 7 by 7 pixels and 16 channels;
    from probe to probe, the channels and the sides double in turns.
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
