"""Makes operations of a Context that several devices may share. States how each can be cut."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkle_drv import ops
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression import promote
from sparkle_drv.ops.map.operation import common_shape
from sparkle_drv.ops.shapes import geometry
from sparkle_drv.sched.shard import cuts
from sparkle_drv.sched.shard.arguments import proportions
from sparkle_drv.sched.shard.cuts import Cut

from . import calls, fast_path
from .estimates import SharedEstimate
from .local import LocalExecutor
from .sharding import Sharding, Terms

REDUCES = ("none", "sum")
TOPOLOGIES = ("single", "mesh")


def terms(
    shares: Any, max_vram_gb: Any, prefer_p2p: bool, named: Callable[[str], str]
) -> Terms:  # fmt: skip
    """Returns how a call is to be divided. `named` returns the URI of a device by any of its names.

    Raises TypeError for an argument of a wrong type. Raises ValueError for unknown words or
    devices, for shares that give no proportions, and for a `max_vram_gb` that is not above 0.
    """
    limit = 0
    if max_vram_gb is not None:
        if isinstance(max_vram_gb, bool) or not isinstance(max_vram_gb, (int, float)):
            raise TypeError(f"max_vram_gb: expected a number of 10^9 bytes, got {max_vram_gb!r}")
        if not 0 < max_vram_gb < math.inf:
            raise ValueError(f"max_vram_gb: expected more than 0, got {max_vram_gb!r}")
        limit = max(1, int(max_vram_gb * 1e9))
    if isinstance(shares, Mapping):
        given = proportions({named(uri): share for uri, share in shares.items()})
        return Terms(given, limit, prefer_p2p)
    if not isinstance(shares, str):
        raise TypeError(f"shards: expected 'auto', 'each' or shares by URI, got {shares!r}")
    return Terms(word("shards", shares, ("auto", "each")), limit, prefer_p2p)


def word(name: str, given: Any, words: Sequence[str]) -> str:
    """Returns `given` if it is one of these words. Raises ValueError otherwise."""
    if given not in words:
        expected = " or ".join(repr(one) for one in words)
        raise ValueError(f"{name}: expected {expected}, got {given!r}")
    return str(given)


def sharing(executor: LocalExecutor, *given: Any, **named: Any) -> Sharding:
    """Returns a Sharding, which makes a call that may be divided. Returns a SharedEstimate if the
    call is only to be planned.
    """
    return (SharedEstimate if executor.unplaced else Sharding)(executor, *given, **named)


def gemm(
    executor: LocalExecutor, uris: calls.Uris, how: Terms, reduce: str, a: Any, b: Any,
    out: Any, options: dict[str, Any],
) -> Any:  # fmt: skip
    """Runs `ops.gemm` on one device or several, as `how` says or the planner decides."""

    def found(operands: Sequence[Any]) -> list[Cut]:
        activated = options.get("activation") is not None
        biased = operands[2] is not None
        return cuts.gemm(operands[0].shape, operands[1].shape, biased, activated, reduce)

    if reduce == "sum" and (options.get("bias") is not None or options.get("activation")):
        raise ValueError("reduce: expected 'none' beside a bias or an activation, got 'sum'")
    executor_of = sharing(executor, found, how, about=(reduce,))
    return fast_path.divided(executor_of, uris, ops.gemm, calls.gemm, (a, b), options, out)


def conv2d(
    executor: LocalExecutor, uris: calls.Uris, how: Terms, x: Any, w: Any, bias: Any, out: Any,
    options: dict[str, Any],
) -> Any:  # fmt: skip
    """Runs `ops.conv2d` on one device or several, as `how` says or the planner decides."""

    def look(check: Any, cut: Cut, begin: int, end: int) -> Any:
        shape = check.keywords["shape"]
        part = {"n" if cut.name == "images" else "oc": end - begin}
        return functools.partial(check.func, **{**check.keywords, "shape": replace(shape, **part)})

    def found(operands: Sequence[Any]) -> list[Cut]:
        form = {name: options.get(name, usual) for name, usual in geometry.FORM.items()}
        shape = geometry.geometry(operands[0].shape, operands[1].shape, **form)
        return cuts.conv2d(shape, form["layout"])

    executor_of = sharing(executor, found, how, look)
    return fast_path.divided(
        executor_of, uris, ops.conv2d, calls.conv2d, (x, w, bias), options, out
    )


def map(
    executor: LocalExecutor, uris: calls.Uris, how: Terms, expression: Any,
    values: tuple[Any, ...], out: Any, named: dict[str, Any],
) -> Any:  # fmt: skip
    """Runs `ops.map` on one device or several, as `how` says or the planner decides."""

    def found(operands: Sequence[Any]) -> list[Cut]:
        arrays = {str(at): x for at, x in enumerate(operands)}
        if any(getattr(x, "layout", None) for x in operands):
            return []
        return cuts.map({name: x.shape for name, x in arrays.items()}, common_shape(arrays))

    executor_of = sharing(executor, found, how)
    given = expression, *values
    return fast_path.divided(executor_of, uris, ops.map, calls.map, given, named, out)


def reduce(
    executor: LocalExecutor, uris: calls.Uris, how: Terms, a: Any, op: Any, axis: Any,
    names: dict[str, Any],
) -> Any:  # fmt: skip
    """Runs `ops.reduce` on one device or several, as `how` says or the planner decides."""

    def found(operands: Sequence[Any]) -> list[Cut]:
        kind = check.tag_of(operands[0].dtype)
        # Partial sums of 16-bit elements would be rounded to 16 bits. So a sum of such elements is
        # not cut along an axis that it reduces.
        apart = op != "sum" or kind not in promote.COMPUTED_IN
        made = cuts.reduce(operands[0].shape, op, axis, bool(names.get("keepdims")))
        return [cut for cut in made if apart or cut.out is not None]

    executor_of = sharing(executor, found, how)
    return fast_path.divided(executor_of, uris, ops.reduce, calls.reduce, (a, op, axis), names)
