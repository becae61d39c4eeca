"""Rows: operations on a device (`ops.`), by a Context (`ctx.`) and shared by two devices
(`shards `), of matrices with a few rows. A row named "large" shows the cost beside real work.

"arrays": the operands are ContextArrays, and the caller waits for the values of the result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
from _cpu_peers.base import Way

from .makers import Makers, by_both, by_wall

SMALL, LARGE = 16, 256
"""Number of rows of a matrix, which is also its number of columns."""
SETTLED = 100
"""Calls after which a Context has measured a call and made its plan anew (docs/scheduling.md)."""
ROUNDING = 1e-4
"""Largest error, over the rms of the reference: that of Winograd's algorithm in reference.py."""
Given = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """The arguments of a call as Python text, and its result by numpy in float64."""

    method: str
    arguments: str
    want: Callable[[Given], Any]


def _sum(of: Given) -> Any:
    return 2 * of["x"] + of["y"]


def _convolution(of: Given) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(of["image"], (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, of["w"])


OPERATIONS: Mapping[str, Operation] = {
    "gemm": Operation("gemm", "x, y", lambda of: of["x"] @ of["y"]),
    "map": Operation("map", "'2*x + y', x=x, y=y", _sum),
    "map function": Operation("map", "f, x, y", _sum),
    "conv2d": Operation("conv2d", "image, w", _convolution),
    "reduce": Operation("reduce", "x", lambda of: of["x"].sum()),
}


def operands(side: int) -> Given:
    """Returns two matrices with `side` rows, images with as many, and filters, by name."""
    rng = np.random.default_rng(side)
    x, y = rng.standard_normal((2, side, side), np.float32)
    image = rng.standard_normal((2, 4, side, side), np.float32)
    return {"x": x, "y": y, "image": image, "w": rng.standard_normal((4, 4, 3, 3), np.float32)}


def verified(name: str, statement: str, names: Given, want: Any, early: int = SETTLED) -> Way:
    """Returns the way to compute a row whose `statement` puts its result into `got[0]`. The result
    is compared with `want`.
    """
    from _cpu_peers import reference

    got: list[Any] = [None]

    def result() -> None:
        error = reference.error(np.asarray(got[0]), np.asarray(want, np.float64))
        if error > ROUNDING:
            raise ValueError(f"{name}: expected an error of at most {ROUNDING}, got {error:.2g}")

    def poison() -> None:
        got[0] = np.zeros(0)

    return Way(statement, {**names, "got": got}, result, early, poison)


@cache
def context(*uris: str) -> Any:
    """Returns the Context of some devices, one for all rows. No other process knows what it has
    measured. A device of two has one core, so it has one thread.
    """
    import sparkle_drv

    with patch.dict(os.environ, {"SPARKLE_THREADS": "1"} if len(uris) > 1 else {}):
        return sparkle_drv.init(list(uris), profile=False)


def pair() -> tuple[str, str]:
    """Returns the URIs of two cpu devices: two cores, or one core twice if this process has one."""
    cores = sorted(os.sched_getaffinity(0))
    return f"cpu:c{cores[0]}", f"cpu:c{cores[1]}" if len(cores) > 1 else "cpu"


def arrays(ctx: Any, of: Given) -> Given:
    """Returns the operands as ContextArrays."""
    return {name: ctx.array(x.shape, x.dtype).fill(x) for name, x in of.items()}


def _f(x: Any, y: Any) -> Any:
    return 2 * x + y


def _wanted(operation: Operation, of: Given) -> Any:
    return operation.want({name: x.astype(np.float64) for name, x in of.items()})


def _on_device(name: str, operation: Operation, side: int, dev: Any) -> Way:
    import sparkle_drv

    of = operands(side)
    call = f"got[0] = ops.{operation.method}(dev, {operation.arguments})"
    names = {**of, "ops": sparkle_drv.ops, "dev": dev, "f": _f}
    return verified(name, call, names, _wanted(operation, of))


def _by_context(name: str, operation: Operation, side: int, dev: Any) -> Way:
    ctx, of = context("cpu"), operands(side)
    call = f"got[0] = ctx.{operation.method}({operation.arguments})"
    names = {**of, "ctx": ctx, "f": _f}
    if name.endswith("arrays"):
        call, names = f"{call}.numpy()", {**names, **arrays(ctx, of)}
    return verified(name, call, names, _wanted(operation, of))


def _shared(name: str, operation: Operation, side: int, dev: Any) -> Way:
    of = operands(side)
    call = f"got[0] = ctx.{operation.method}({operation.arguments}, shards='each')"
    names = {**of, "ctx": context(*pair()), "f": _f}
    return verified(name, call, names, _wanted(operation, of))


def _expression(name: str, dev: Any) -> Way:
    of = operands(SMALL)
    names = arrays(context("cpu"), of)
    want = _wanted(OPERATIONS["map"], of)
    return verified(name, "got[0] = (2 * x + y).numpy()", names, want)


def _rows() -> Iterator[tuple[str, Makers]]:
    for what, operation in OPERATIONS.items():
        for name, make, makers in (
            (f"ops.{what}", _on_device, by_wall),
            (f"ctx.{what}", _by_context, by_wall),
            (f"ctx.{what} arrays", _by_context, by_both),
            (f"shards {what}", _shared, by_both),
        ):
            yield name, makers(partial(make, name, operation, SMALL))
    name = "ctx expression arrays"
    yield name, by_both(partial(_expression, name))
    for what in ("gemm", "map"):
        name = f"ctx.{what} large"
        yield name, by_wall(partial(_by_context, name, OPERATIONS[what], LARGE))
        name = f"shards {what} large"
        yield name, by_both(partial(_shared, name, OPERATIONS[what], LARGE))


ROWS: Mapping[str, Makers] = dict(_rows())
