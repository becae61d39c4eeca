"""One call of each operation and of each plan, as the call table meets it.

`CALLS` has them by name. A call knows its operands, how to make them, and what float64 says that
comes out. Imported by the tests of this folder alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.ops import ref

F32, F64, I32 = np.float32, np.float64, np.int32


@dataclass
class Call:
    """run(dev, **operands, out=...) makes the call; shapes: of the operands, by name."""

    run: Callable[..., Any]
    want: Callable[..., Any]
    shapes: dict[str, tuple[int, ...]]
    dtype: Any = F32
    takes_out: bool = True
    constants: tuple[str, ...] = ()
    plan: Callable[..., Any] | None = None
    """What makes the plan, which is then the first argument of `run`."""
    parameters: dict[str, Any] = field(default_factory=dict)

    def operands(self, seed: int = 1) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        make = rng.standard_normal
        if self.dtype is I32:
            make = lambda size: rng.integers(-99, 99, size)  # noqa: E731
        return {name: np.asarray(make(shape), self.dtype) for name, shape in self.shapes.items()}

    def on(self, dev: Any) -> Callable[..., Any]:
        """The call on this device, of operands by name."""
        first = dev if self.plan is None else self.plan(dev)
        held: dict[int, Any] = {}

        def run(**given: Any) -> Any:
            for name in self.constants:
                source = given[name]  # kept, so that its id is nobody else's
                held.setdefault(id(source), (source, ops.constant(dev, source)))
                given[name] = held[id(source)][1]
            return self.run(first, **given)

        return run

    def result(self, **given: Any) -> Any:
        return self.want(**{name: np.asarray(x, F64) for name, x in given.items()})


def _planned(plan: Any, *operands: Any, shape: tuple[int, ...], out: Any = None) -> Any:
    y = np.empty(shape, F32) if out is None else out
    plan(*operands, y).wait()
    return y


_PADDED = [(1, 1), (1, 1)]
_IMAGE = {"x": (2, 4, 6, 6), "w": (4, 4, 3, 3), "bias": (4,)}


def _conv(x: Any, w: Any, bias: Any, **more: Any) -> Any:
    return ref.conv2d(x, w, bias, **{"padding": _PADDED} | more)


def _want_triple(x: Any, y: Any) -> Any:
    return np.maximum(x, 0) * 3 + y


_TRACED = ops.traced(lambda x, y: ops.functions.relu(x) * 3 + y)
_PRODUCT = {"a": (6, 6), "b": (6, 6), "bias": (6,)}
_W = np.random.default_rng(9).standard_normal((4, 4, 3, 3)).astype(F32)
_BIAS = np.arange(4, dtype=F32)

CALLS = {
    "gemm": Call(
        lambda dev, a, b, bias, out=None: ops.gemm(dev, a, b, out, bias=bias, activation="relu"),
        lambda a, b, bias: np.maximum(a @ b + bias, 0), _PRODUCT,
    ),
    "gemm of f64": Call(
        lambda dev, a, b, out=None: ops.gemm(dev, a, b, out=out), lambda a, b: a @ b,
        {"a": (5, 70), "b": (70, 40)}, F64,
    ),
    "gemm of one": Call(
        lambda dev, a, b, out=None: ops.gemm(dev, a, b, out=out), lambda a, b: a @ b,
        {"a": (1, 1), "b": (1, 1)},
    ),
    "gemm of a constant": Call(
        lambda dev, a, b, bias, out=None: ops.gemm(dev, a, b, out, bias=bias),
        lambda a, b, bias: a @ b + bias, {"a": (6, 70), "b": (70, 40), "bias": (40,)},
        constants=("b",),
    ),
    "conv2d": Call(
        lambda dev, x, w, bias, out=None: ops.conv2d(dev, x, w, bias, out, padding=1),
        _conv, _IMAGE,
    ),
    "conv2d of a constant": Call(
        lambda dev, x, w, bias, out=None: ops.conv2d(
            dev, x, w, bias, out, padding=[1, 1], activation="tanh", algo="direct"
        ),
        lambda **given: _conv(**given, activation="tanh"), _IMAGE, constants=("w",),
    ),
    "map": Call(
        lambda dev, x, y, out=None: ops.map(dev, "relu(x)*3 + y", x=x, y=y, out=out),
        _want_triple, {"x": (6, 4), "y": (6, 4)},
    ),
    "map of rows and numbers": Call(
        lambda dev, x, y, out=None: ops.map(dev, "x*a - y/b", x, y=y, a=2, b=F32(4), out=out),
        lambda x, y: x * 2 - y / 4, {"x": (5, 6), "y": (6,)},
    ),
    "map of a function": Call(
        lambda dev, x, y, out=None: ops.map(dev, _TRACED, x, y, out=out),
        _want_triple, {"x": (7,), "y": (7,)}, F64,
    ),
    "map of i32": Call(
        lambda dev, x, y, out=None: ops.map(dev, "x*n + y", x, y=y, n=-3, out=out),
        lambda x, y: x * -3 + y, {"x": (3, 1, 5), "y": (3, 1, 5)}, I32,
    ),
    "reduce": Call(
        lambda dev, a: ops.reduce(dev, a, "sum", [1], keepdims=True),
        lambda a: a.sum(1, keepdims=True), {"a": (4, 9, 3)}, takes_out=False,
    ),
    "reduce all": Call(
        lambda dev, a: ops.reduce(dev, a, "max"), lambda a: a.max(), {"a": (50,)},
        takes_out=False,
    ),
    "layout": Call(
        lambda dev, a, out=None: ops.layout(dev, a, "NHWC", out=out),
        lambda a: a.transpose(0, 2, 3, 1), {"a": (2, 4, 4, 4)},
    ),
    "gemm plan": Call(
        lambda plan, a, b, bias, out=None: _planned(
            lambda a, b, bias, out: plan(a, b, out, bias), a, b, bias, shape=(6, 6), out=out
        ),
        lambda a, b, bias: np.maximum(a @ b + bias, 0), _PRODUCT,
        plan=lambda dev: ops.gemm.plan(dev, 6, 6, 6, activation="relu"),
    ),
    "conv2d plan": Call(
        lambda plan, x, out=None: _planned(plan, x, shape=plan.out_shape, out=out),
        lambda x: _conv(x, _W.astype(F64), None), {"x": (2, 4, 6, 6)},
        plan=lambda dev: ops.conv2d.plan(dev, (2, 4, 6, 6), _W, padding=1),
    ),
    "grouped conv2d plan": Call(
        lambda plan, x, out=None: _planned(plan, x, shape=plan.out_shape, out=out),
        lambda x: ref.conv2d(x, _W[:, :2], _BIAS, groups=2, stride=(2, 2)),
        {"x": (1, 4, 5, 4)},
        plan=lambda dev: ops.conv2d.plan(
            dev, (1, 4, 5, 4), _W[:, :2], _BIAS, groups=2, stride=2
        ),
    ),
}  # fmt: skip
"""Where it is possible, operands have the shape of the result: `out` may then be one of them."""


class Sub(np.ndarray):
    """Another class, which C does not read."""


def unaligned(x: np.ndarray) -> np.ndarray:
    made = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    made[...] = x
    return made


def readonly(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def spread(x: np.ndarray) -> np.ndarray:
    """The same elements with gaps between them."""
    made = np.zeros([2 * d for d in x.shape], x.dtype)[tuple(slice(None, None, 2) for _ in x.shape)]
    made[...] = x
    return made


def backwards(x: np.ndarray) -> np.ndarray:
    turned = tuple(slice(None, None, -1) for _ in x.shape)
    return x[turned].copy()[turned]


def odd_strides(x: np.ndarray) -> np.ndarray:
    """The same, with strides of no meaning where there is one element."""
    steps = [s if d > 1 else 12345 for s, d in zip(x.strides, x.shape, strict=True)]
    return np.lib.stride_tricks.as_strided(x, x.shape, steps)


VIEWS = {
    "as it is": lambda x: x, "by columns": np.asfortranarray, "with gaps": spread,
    "backwards": backwards, "unaligned": unaligned, "read-only": readonly,
    "odd strides": odd_strides, "a subclass": lambda x: x.view(Sub),
    "masked": np.ma.array, "more dimensions": lambda x: x[None], "fewer": lambda x: x[0],
    "empty": lambda x: x[:0], "other bytes": lambda x: x.astype(x.dtype.newbyteorder()),
    "f64": lambda x: x.astype(F64), "f32": lambda x: x.astype(F32), "i32": lambda x: x.astype(I32),
    "i8": lambda x: x.astype(np.int8), "bool": lambda x: x > 0, "a list": lambda x: x.tolist(),
    "one element": lambda x: x.reshape(-1)[0], "0-d": lambda x: x.reshape(-1)[:1].reshape(()),
    "a number": lambda x: float(x.reshape(-1)[0]), "None": lambda x: None,
    "repeated": lambda x: np.broadcast_to(x[:1], x.shape), "a row short": lambda x: x[:-1],
}  # fmt: skip
"""What an operand or `out` may be replaced by: the same numbers, or what is refused."""
