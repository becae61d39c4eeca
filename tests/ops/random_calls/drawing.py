"""A random call of any operation, on a device or by a Context; composed.py has plans and graphs.

What is decided once for a call (shapes, options, dtypes) is drawn from a `form`, one of FORMS that
come again and again: so most calls are of a shape that was seen, with other arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import expected
import expressions
import numpy as np
import operands
from operands import Operand

from sparkle_drv import ops

FORMS = 400
EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 64)
FEW = (1, 2, 3, 4, 5, 8)
ACTIVATIONS = (None, None, "relu", "tanh", "sigmoid")
LAYOUTS = ("NCHW", "NHWC", "NCHW4c", "NCHW8c", "NCHW3c")


@dataclass
class Place:
    """A device, or a Context, and what it can take."""

    name: str
    ctx: Any = None
    dev: Any = None
    extents: tuple[int, ...] = EXTENTS
    everything: bool = True
    """Does it have f64, int32 and maps of mixed types, and every axis of every reduction?"""

    def operand(self, rng, shape, dtype=np.float32, constant: bool = False) -> Operand:
        """One in numpy's memory, the device's, the Context's, or a constant."""
        kind = rng.random()
        if constant and kind < 0.3:
            make = self.ctx.constant if self.ctx else lambda w: ops.constant(self.dev, w)
            return operands.constant(rng, make, shape, dtype)
        if kind < 0.5:
            if self.ctx is not None:
                return operands.of_context(rng, self.ctx, shape, dtype)
            return operands.of_device(rng, self.dev, shape, dtype)
        return operands.host(rng, shape, dtype)

    def call(self, name: str) -> Callable[..., Any]:
        if self.ctx is not None:
            return getattr(self.ctx, name)
        return lambda *args, **options: getattr(ops, name)(self.dev, *args, **options)


@dataclass
class Call:
    """A call that can be made again: its operands may be refilled in between."""

    text: str
    operands: list[Operand]
    make: Callable[[], Any]
    """Makes the call, waits for it, and gives the elements of the result."""
    expect: Callable[[], tuple[np.ndarray, Any]]
    """(value, bound), for what is in the operands now."""
    base: np.ndarray | None = None
    """The memory of `out` and of operands that overlap it."""
    stored: Callable[[np.ndarray], np.ndarray] | None = None
    """`out` as a view of a copy of `base`."""
    closes: list[Any] = field(default_factory=list)


def extent(form, place: Place, nothing: bool = True) -> int:
    if nothing and form.random() < 0.04:
        return 0
    return int(form.choice(place.extents))


def with_out(rng, text, place, given, shape, dtype, run, expect, refuses=()) -> Call:
    """A call with no `out`, or one of its kind, or one that lies over an operand's memory."""
    on_host = all(x.kind in ("host", "constant") for x in given)
    way = rng.random()
    if way < 0.4 or not all(shape):
        return Call(text, given, lambda: operands.on_host(run(None)), expect)
    over = [x for x in given if x.kind == "host" and x.filled is x.given and x.given.size > 8]
    if on_host and over and way < 0.7 and (overlapped := laid_over(rng, over[0], shape, dtype)):
        base, stored, out = overlapped
        made = Call(f"{text}, out over an operand", given, lambda: run(out), expect, base, stored)
        return made
    if on_host:
        out = operands.strided(rng, "padded" if way < 0.85 else "permuted", shape, dtype)
    elif place.ctx is not None:
        out = place.ctx.array(shape, dtype)
    else:
        out = place.dev.empty(shape, dtype)

    def make():
        result = run(out)
        assert result is out, "the result is not `out`"
        return operands.on_host(result)

    return Call(f"{text}, out", given, make, expect, closes=[] if on_host else [out])


def laid_over(rng, operand: Operand, shape, dtype):
    """(base, stored, out): the operand and `out` are moved into one buffer, where they overlap."""
    x, size = operand.given, int(np.prod(shape))
    if x.dtype != dtype:
        return None
    base = np.zeros(max(x.size, size) + 4, dtype)
    at, to = int(rng.integers(0, 4)), int(rng.integers(0, 4))
    moved = base[at : at + x.size].reshape(x.shape)
    moved[...] = x
    operand.given = operand.filled = moved
    turned = rng.random() < 0.3

    def stored(memory: np.ndarray) -> np.ndarray:
        flat = memory[to : to + size]
        return flat.reshape(shape[::-1]).T if turned else flat.reshape(shape)

    return base, stored, stored(base)


def gemm(form, rng, place: Place) -> Call:
    m, n, k = (extent(form, place) for _ in range(3))
    dtype = np.float64 if place.everything and form.random() < 0.25 else np.float32
    activation = ACTIVATIONS[form.integers(len(ACTIVATIONS))]
    algo = form.choice(["auto", "auto", "auto", "naive", "blocked"])
    a, b = place.operand(rng, (m, k), dtype), place.operand(rng, (k, n), dtype, constant=True)
    bias = place.operand(rng, (n,), dtype) if form.random() < 0.4 else None
    given = [x for x in (a, b, bias) if x is not None]
    function = place.call("gemm")

    def run(out):
        with_bias = {} if bias is None else {"bias": bias.given}
        options = {"activation": activation, "algo": algo, **with_bias}
        if activation is None and algo == "auto" and bias is None:
            options = {}
        return function(a.given, b.given, out, **options)

    def expect():
        return expected.product(a.value, b.value, bias and bias.value, activation)

    text = f"gemm {m}x{n}x{k} {np.dtype(dtype)} {activation} {algo}"
    return with_out(rng, text, place, given, (m, n), dtype, run, expect)


def image(form, place: Place) -> dict[str, Any]:
    """The shapes and options of a convolution that has an output."""
    groups = int(form.choice([1, 1, 1, 2, 3]))
    kernel = tuple(int(form.choice([1, 2, 3, 3, 5])) for _ in range(2))
    dilation = int(form.choice([1, 1, 2])) if form.random() < 0.7 else (1, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, expected.pairs(dilation), strict=True)]
    most = max(place.extents) // 2
    h, w = (r + int(form.integers(0, most)) for r in reach)
    padding = [0, 1, "same", "valid", (1, 2), ((0, 1), (2, 0))][form.integers(6)]
    return {
        "n": extent(form, place) if form.random() < 0.1 else int(form.integers(1, 3)),
        "c": groups * int(form.choice(FEW)),
        "oc": groups * int(form.choice(FEW)),
        "extent": (h, w),
        "kernel": kernel,
        "options": {
            "stride": [1, 1, 2, (2, 1)][form.integers(4)],
            "padding": padding,
            "dilation": dilation,
            "groups": groups,
            "activation": ACTIVATIONS[form.integers(len(ACTIVATIONS))],
            "layout": "NHWC" if form.random() < 0.4 else "NCHW",
        },
    }


def of_images(rng, place: Place, drawn: dict[str, Any], with_bias: bool):
    """(x, w, bias) for a convolution."""
    c, (h, w), each = drawn["c"], drawn["extent"], drawn["c"] // drawn["options"]["groups"]
    nhwc = drawn["options"]["layout"] == "NHWC"
    x = place.operand(rng, (drawn["n"], h, w, c) if nhwc else (drawn["n"], c, h, w))
    weights = place.operand(rng, (drawn["oc"], each, *drawn["kernel"]), constant=True)
    return x, weights, place.operand(rng, (drawn["oc"],)) if with_bias else None


def conv2d(form, rng, place: Place) -> Call:
    drawn = image(form, place)
    algo = form.choice(["auto", "auto", "auto", "naive", "direct", "im2col"])
    x, w, bias = of_images(rng, place, drawn, form.random() < 0.5)
    options, function = drawn["options"], place.call("conv2d")

    def run(out):
        return function(x.given, w.given, bias and bias.given, out, algo=algo, **options)

    def expect():
        return expected.convolution(x.value, w.value, bias and bias.value, **options)

    text = f"conv2d {x.given.shape} {w.given.shape} {options} {algo}"
    shape = expect()[0].shape
    given = [one for one in (x, w, bias) if one is not None]
    return with_out(rng, text, place, given, shape, np.float32, run, expect)


def map_(form, rng, place: Place) -> Call:
    names = ["x", "y", "z"][: int(form.integers(1, 4))]
    kinds = [np.float32, np.float32, np.float64, np.int32] if place.everything else [np.float32]
    dtypes = [kinds[form.integers(len(kinds))] for _ in names]
    if form.random() < 0.6 or not place.everything:
        dtypes = [dtypes[0]] * len(names)
    shape = tuple(extent(form, place) for _ in range(int(form.integers(1, 4))))
    real = any(np.dtype(d).kind == "f" for d in dtypes)
    expression = expressions.drawn(form, names, real)
    given = {}
    for name, dtype in zip(names, dtypes, strict=True):
        own = shape
        if form.random() < 0.25 and name != "x":
            own = tuple(1 if form.random() < 0.5 else d for d in shape)
        given[name] = place.operand(rng, own, dtype)
    dtype = np.result_type(*dtypes)
    function, by_name = place.call("map"), form.random() < 0.5
    shape = np.broadcast_shapes(*(x.given.shape for x in given.values()))

    def run(out):
        values = {name: x.given for name, x in given.items()}
        if by_name:
            return function(expression.text, out=out, **values)
        order = dict.fromkeys(re.findall(r"\b[xyz]\b", expression.text))
        return function(expression.text, *(values[name] for name in order), out=out)

    def expect():
        kind = np.float64 if real else np.int32
        value, size = expression.evaluate({n: x.value.astype(kind) for n, x in given.items()})
        narrow = any(np.dtype(d) == np.float32 for d in dtypes)
        bound = 0 if not real else (4e-5 if narrow else 1e-12) * (size + 1)
        return np.broadcast_to(value, shape), np.broadcast_to(bound, shape)

    text = f"map {expression.text!r} {[d.__name__ for d in dtypes]} {shape}"
    return with_out(rng, text, place, list(given.values()), shape, dtype, run, expect)


def reduce(form, rng, place: Place) -> Call:
    shape = tuple(extent(form, place, False) for _ in range(int(form.integers(1, 4))))
    kinds = [np.float32, np.float32, np.float64, np.int32] if place.everything else [np.float32]
    dtype = kinds[form.integers(len(kinds))]
    op = form.choice(["sum", "max", "min"] if dtype is np.int32 else ["sum", "max", "min", "mean"])
    axes = [i for i in range(len(shape)) if form.random() < 0.5]
    axis = None if form.random() < 0.3 else axes[0] - len(shape) if len(axes) == 1 else tuple(axes)
    keepdims, folded = bool(form.random() < 0.3), form.random() < 0.3
    a = place.operand(rng, shape, dtype)
    b = place.operand(rng, shape, dtype) if folded else None
    function = place.call("reduce")

    def make():
        if folded:
            lazy = function("x - y*2", op, axis, keepdims=keepdims, x=a.given, y=b.given)
            return operands.on_host(lazy)
        return operands.on_host(function(a.given, op, axis, keepdims=keepdims))

    def expect():
        if not folded:
            return expected.reduced(a.value, op, axis, keepdims)
        x, y = a.value, b.value
        value, bound = expected.reduced(x - y * 2, op, axis, keepdims)
        size = np.abs(x.astype(float)) + np.abs(y.astype(float)) * 2
        eps = 0 if dtype is np.int32 else expected.EPS[np.dtype(dtype).name]
        return value, bound + 4 * eps * size.sum(axis=axis, keepdims=keepdims)

    given = [a, b] if folded else [a]
    return Call(
        f"reduce {op} {shape} {axis} {keepdims} {dtype.__name__} {folded}", given, make, expect
    )


def layout(form, rng, place: Place) -> Call:
    source, target = (str(form.choice(LAYOUTS)) for _ in range(2))
    n, c, h, w = (int(form.choice(FEW)) for _ in range(4))
    block = expected.block_of(source)
    shape = {"NCHW": (n, c, h, w), "NHWC": (n, h, w, c)}.get(
        source, (n, -(-c // (block or 1)), h, w, block)
    )
    channels = c if block and form.random() < 0.7 else None
    a = place.operand(rng, shape)
    options = {"source": source} | ({} if channels is None else {"channels": channels})
    function = place.call("layout")

    def run(out):
        return function(a.given, target, out=out, **options)

    def expect():
        real = channels if channels is not None else (a.given.shape[1] * block if block else None)
        return expected.to_layout(a.value, source, target, real), 0

    text = f"layout {source} -> {target} {shape} {channels}"
    return with_out(rng, text, place, [a], expect()[0].shape, np.float32, run, expect)


KINDS = {"gemm": gemm, "conv2d": conv2d, "map": map_, "reduce": reduce, "layout": layout}
