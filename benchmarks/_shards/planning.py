"""Measures the time of planning shares, and what planning adds to a call of a known
shape, in us.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median, quantiles

import numpy as np
from _inside.shards.plan_quality import decisions, planner
from _mesh.figures import Figures, told

import sparkle_drv as sp

from .options import Options

DEVICES, PLANS = 5, 3
"""Number of devices of a random machine; how often its plan is made, where the fastest
time counts."""
SIDE, CALLS, WARM = 64, 200, 300
"""For products of a known shape: their side, the calls in a block, and the calls before the
first block."""


def planning(options: Options) -> Figures:
    """Returns, by name, the us of planning on random machines, and the us that planning adds to a
    call.
    """
    took = []
    for seed in range(options.seeds):
        plan = planner(seed, DEVICES)
        took.append(min(_us(plan) for _ in range(PLANS)))
    upper = quantiles(took, n=10)[-1] if len(took) > 1 else took[0]
    named = f"plan of {DEVICES} devices, us, {options.seeds} drawn machines"
    return {
        f"{named}, median": median(took), f"{named}, p90": upper, f"{named}, worst": max(took),
        **_alone(options), **_divided(options),
    }  # fmt: skip


def _alone(options: Options) -> Figures:
    """Times a call for which the planner found that one device is enough. Returns how many us
    longer it takes than the operation itself (`sp.ops`), and than the same call with
    topology="single". The calls are timed in turns.
    """
    a, b = np.random.default_rng(1).standard_normal((2, SIDE, SIDE)).astype(np.float32)
    with sp.init(["cpu", "egl:0"], profile=False) as ctx:
        device = ctx.device
        ways: dict[str, Callable[[], object]] = {
            "its plan's own call": partial(sp.ops.gemm, device, a, b),
            'topology="single"': partial(ctx.gemm, a, b, topology="single"),
            'topology="mesh"': partial(ctx.gemm, a, b, topology="mesh"),
        }
        for call in ways.values():
            for _ in range(WARM):
                call()
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for at in range(options.rounds):
            for name in sorted(ways, reverse=at % 2 == 1):
                taken[name].append(_block(ways[name]))
    mesh, found = taken['topology="mesh"'], Figures()
    for name, its in taken.items():
        if its is not mesh:
            extra = told([a - b for a, b in zip(mesh, its, strict=True)])
            found[f'ctx.gemm, {SIDE} cubed, topology="mesh", us more than {name}'] = extra
    return found


def _divided(options: Options) -> Figures:
    """Times a call that several devices share, whose plan an earlier call made. Returns the us of
    the whole call, and the us from its start until it has looked that plan up.
    """
    a, b = np.random.default_rng(1).standard_normal((2, SIDE, SIDE)).astype(np.float32)
    found, whole = list[float](), list[float]()
    with sp.init(["cpu:c0", "cpu:c1"], profile=False) as ctx:
        for _ in range(WARM):
            ctx.gemm(a, b, shards="each")
        with decisions(found):
            for _ in range(options.rounds * 10):
                whole.append(_us(partial(ctx.gemm, a, b, shards="each")))
    named = f'ctx.gemm, {SIDE} cubed, shards="each", us'
    return {f"{named} until its plan is found": told(found), f"{named} of the call": told(whole)}


def _us(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return 1e6 * (time.perf_counter() - begin)


def _block(call: Callable[[], object]) -> float:
    """Returns the median us of CALLS single calls. The median ignores those few calls in which the
    Context also measures a device or chooses one anew.
    """
    return median(_us(call) for _ in range(CALLS))
