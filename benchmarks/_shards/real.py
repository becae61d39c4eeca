"""Times products that several real devices share, in turns with products on one device."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median

import numpy as np
from _mesh.figures import Figures, Wrong, told

import sparkle_drv as sp

from .options import Options

WARM = 6
"""Calls that are not timed: the first ones measure devices and correct plans."""
SMALL = 4
"""Products on slow devices have a side that is smaller by this factor."""
ROUND_S = 2.0
"""Largest seconds of a round of all sides, on average. Slow sides are therefore timed in fewer
rounds."""
Calls = dict[str, Callable[[], object]]


def real(options: Options) -> Figures:
    """Returns ratios by name: the time of a product that devices share divided by another time,
    such as that on the whole CPU. Raises Wrong for a wrong product, or DeviceNotFound.
    """
    return {**_cores(options), **_unequal(options), **_shared(options)}


def _cores(options: Options) -> Figures:
    """Times a product that two cores share, compared with the same product on the whole CPU."""
    taken, two = _timed(options, options.side, ("cpu:c0", "cpu:c1"), {"whole": ["cpu"]})
    name = f"gemm {options.side} cubed, seconds of cpu:c0 + cpu:c1 / cpu"
    return {name: _ratio(taken["shared"], taken["whole"]), f"{name}, its plan": two}


def _unequal(options: Options) -> Figures:
    """Times a product that two unequally fast cores share. Compares the time with an ideal: the
    work over the sum of both cores' rates.
    """
    uris, side = ("cpu:c0", "cpu:c1/ref"), options.side // 2
    taken, said = _timed(options, side, uris, {uri: [uri] for uri in uris})
    pairs = zip(*(taken[uri] for uri in uris), strict=True)
    ideal = [1 / sum(1 / seconds for seconds in pair) for pair in pairs]
    name = f"gemm {side} cubed, seconds of {' + '.join(uris)} / work over the sum of both rates"
    return {name: _ratio(taken["shared"], ideal), f"{name}, its plan": said}


def _shared(options: Options) -> Figures:
    """Times a product on two devices that share the cores of the CPU. Compares the planner's choice
    with each device alone and with a split over both devices.
    """
    uris, side = ("cpu", "egl:0"), options.side // SMALL
    taken, said = _timed(options, side, uris, {uri: [uri] for uri in uris}, each=True)
    other = {name: median(its) for name, its in taken.items() if name != "shared"}
    best = min(other, key=lambda name: other[name])
    name = f"gemm {side} cubed, seconds of {' + '.join(uris)} / the best of one and of both"
    return {f"{name}, which is {best}": _ratio(taken["shared"], taken[best]), f"{name}, plan": said}


def _timed(
    options: Options, side: int, uris: tuple[str, ...], alone: dict[str, list[str]],
    each: bool = False,
) -> tuple[dict[str, list[float]], str]:  # fmt: skip
    """Returns the seconds of each side, timed in turns, and the plan's text.

    A side is a way to compute the product. In the side "shared" the planner decides. Each entry of
    `alone` is a side with a Context of its own. With `each` there is a side "all", in which every
    device gets a share.
    """
    a, b = np.random.default_rng(1).standard_normal((2, side, side)).astype(np.float32)
    want, out = a @ b, np.empty((side, side), np.float32)
    with ExitStack() as stack:
        ctx = stack.enter_context(sp.init(list(uris), profile=False))
        calls: Calls = {"shared": partial(ctx.gemm, a, b, out)}
        for name, names in alone.items():
            one = stack.enter_context(sp.init(names, profile=False, topology="single"))
            calls[name] = partial(one.gemm, a, b, out)
        if each:
            calls["all"] = partial(ctx.gemm, a, b, out, shards="each")
        taken: dict[str, list[float]] = {name: [] for name in calls}
        spent_s = 0.0
        for at in range(-WARM, options.rounds):
            if at > 2 and spent_s > ROUND_S * at:
                break
            for name in sorted(calls, reverse=at % 2 == 1):
                out.fill(np.nan)
                begin = time.perf_counter()
                calls[name]()
                seconds = time.perf_counter() - begin
                if not np.allclose(out, want, rtol=1e-3, atol=1e-3 * side**0.5):
                    raise Wrong(
                        f"{name} of {' + '.join(uris)}: expected numpy's product, got another"
                    )
                if at >= 0:
                    taken[name].append(seconds)
                    spent_s += seconds
        calls["shared"]()
        return taken, ctx.explain_last_plan().replace("\n", ";")


def _ratio(ours: list[float], theirs: list[float]) -> str:
    said = told([a / b for a, b in zip(ours, theirs, strict=True)])
    return f"{said}, {1e3 * median(ours):.1f} by {1e3 * median(theirs):.1f} ms"
