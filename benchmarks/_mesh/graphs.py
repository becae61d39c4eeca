"""Times a graph with one chain of products for each device. Compares it with processes that are
pinned to one core each and run one chain each.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, NoReturn

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing import sim
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

from .figures import Figures, Options, Wrong, told

SIDE, STEPS, WARM = 512, 6, 12
"""The chains: products of SIDE, then a map, STEPS times. WARM runs are not timed."""


def graphs(options: Options) -> Figures:
    """Returns two ratios of times. The first divides the time of a graph on simulated devices by
    the time that its plan predicts. The second divides the time of a graph on `options.devices` by
    the time of processes that run one chain of the graph each.

    The second ratio is missing if a device is not exactly one core. Raises Wrong for a wrong
    result.
    """
    found: Figures = {"graph of two chains on simulated devices, simulated / predicted": virtual()}
    uris = list(options.devices)
    cores = [re.fullmatch(r"cpu:c(\d+)", uri) for uri in uris]
    if not all(cores):
        return found
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        ends = []
        for at, uri in enumerate(uris):
            mine, its = spawn.Pipe()
            child = spawn.Process(target=_one_chain, args=(at, uri, its), daemon=True)
            child.start()
            stack.callback(child.join, 10)
            stack.callback(mine.send, False)
            ends.append(mine)
        ctx = stack.enter_context(sp.init(uris, profile=False))
        graph, check = _chains(ctx, range(len(uris)))
        for end in ends:
            if not end.poll(120) or not end.recv():
                raise Wrong(
                    "a process with one chain of products: expected a right result within 120 s, "
                    "got a wrong one or none"
                )
        ratios = []
        for at in range(options.rounds):
            taken = {}
            for name in ("graph", "processes")[:: 1 - at % 2 * 2]:
                taken[name] = _run(graph) if name == "graph" else _together(ends)
            ratios.append(taken["graph"] / taken["processes"])
        check()
        plan: Any = ctx.last_plan
        used = sorted({task.device for task in plan.tasks})
    name = f"graph / pinned processes, a chain each, {' '.join(uris)}"
    return {**found, name: f"{told(ratios)}; on {' '.join(used)}"}


def virtual() -> float:
    """Returns a ratio: the time of a graph's run divided by the time that its plan predicts.

    The run is on two simulated devices, and both times are virtual. The graph has one chain of
    products for each device. Raises Wrong for a wrong result.
    """
    uris = ("sim:a", "sim:b")
    rates = {"gemm_f32": Rate(1e-5, 1e10), "map_f32": Rate(1e-5, 1e10)}
    devices = {uri: SimDevice(uri, rates, (2e-5, 1e10)) for uri in uris}
    with (
        sim.on(SimMachine(devices, random.Random(1))) as machine,
        sp.init(list(uris), profile=False) as ctx,
    ):
        graph, _ = _chains(ctx, range(len(uris)))
        for device in ctx.devices:
            device.wait_idle()
        begin = machine.clock.now_s
        _run(graph)
        took_s = machine.clock.now_s - begin
        plan: Any = ctx.last_plan
        return float(took_s / plan.predicted_s)


def _chains(ctx: sp.Context, numbers: Iterable[int]) -> tuple[Any, Callable[[], None]]:
    """Returns a graph that has run, and a function that raises Wrong if a result of the graph is
    wrong. The graph has one chain of products and maps for each of `numbers`, which are the seeds
    of the chains' random operands.
    """
    wants = []
    with ctx.graph() as graph:
        for number in numbers:
            x, w = np.random.default_rng(number).standard_normal((2, SIDE, SIDE)).astype(np.float32)
            w /= SIDE**0.5
            want = x
            for _ in range(STEPS):
                x = graph.map("max(x, 0) + 0.1", x=graph.gemm(x, w))
                want = np.maximum(want @ w, 0) + np.float32(0.1)
            graph.output(x)
            wants.append(want)

    def check() -> None:
        results = graph.run()
        results = results if isinstance(results, tuple) else (results,)
        for got, want in zip(results, wants, strict=True):
            if not np.allclose(got.numpy(), want, rtol=1e-3, atol=1e-3):
                raise Wrong("a chain of products: expected numpy's result, got another one")

    for _ in range(WARM):
        check()
    return graph, check


def _run(graph: Any) -> float:
    begin = time.perf_counter()
    results = graph.run()
    for result in results if isinstance(results, tuple) else (results,):
        result.numpy()
    return time.perf_counter() - begin


def _one_chain(number: int, uri: str, end: Any) -> None:
    """Is the body of a child process: answers requests from the pipe `end` until one is False.

    For each request it runs one chain of products on the device `uri`, and sends when the run began
    and ended. `number` is the seed of the chain's random operands.
    """
    os.sched_setaffinity(0, {int(uri.removeprefix("cpu:c"))})
    with sp.init([uri], profile=False) as ctx:
        graph, _ = _chains(ctx, [number])
        end.send(True)
        while end.recv():
            begin = time.perf_counter()
            seconds = _run(graph)
            end.send((begin, begin + seconds))


def _together(ends: list[Any]) -> float:
    """Lets every child process (one per pipe of `ends`) run its chain of products once. Returns the
    seconds from the first start to the last end, by the clock that all processes share.
    """
    for end in ends:
        end.send(True)
    spans = [end.recv() if end.poll(60) else _silent() for end in ends]
    seconds: float = max(stop for _, stop in spans) - min(begin for begin, _ in spans)
    return seconds


def _silent() -> NoReturn:
    raise Wrong("a process that runs one chain of products: no answer within 60 s")
