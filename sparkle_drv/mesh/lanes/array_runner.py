"""Runs programs of copies and reductions on Arrays of several devices.

Each device has up to three memories. "data" is the Array that a collective reads or changes there,
"out" an Array for the result. "temp" is scratch memory, up to the furthest byte that the program
uses there. transports.py makes copies; ops.map makes reductions, each in the queue of its device.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from threading import Event
from typing import Any

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.device import Device
from sparkle_drv.core.retire import BRIEFLY_S
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.mesh.links.line import Point

from . import runner
from .program import Begun, Program, Reduce, Region, RegionCopy, Step
from .transports import Way

EXPRESSIONS = {"sum": "a + b", "max": "max(a, b)"}
"""For each reduction, the expression of two elements for ops.map."""


class Ways(Closing):
    """The links between some devices, each opened at its first use. `close` ends them.

    Calls, graphs and meshes of one Context share a Ways, from several threads.
    """

    BRIEFLY = (BRIEFLY_S,)

    def __init__(self, devices: Mapping[str, Device]) -> None:
        self.devices = devices
        self.points: dict[tuple[str, str], list[Point]] = {}
        """For each (from, to), the (bytes, seconds) that survey.py measured."""
        self.surveyed: dict[frozenset[str], Any] = {}
        """For each set of URIs that a mesh has, its newest measurements (survey_result.py)."""
        self.measuring = fork_lock()
        """Held while something is measured: surveys and probes must not disturb one another."""
        self._ways: dict[tuple[str, str], Way] = {}

    def between(self, source: str, to: str) -> Way:
        """Returns the Way from one URI to another."""
        known = self._ways.get((source, to))
        if known is None:
            fresh = Way(self.devices[source], self.devices[to])
            known = self._ways.setdefault((source, to), fresh)
        return known

    def moved(self, places: Collection[str] | None = None) -> dict[str, int]:
        """Returns the bytes moved by each transport, over all links between `places`; None means
        all devices.
        """
        total: dict[str, int] = {}
        there = set(self.devices if places is None else places)
        for pair, way in list(self._ways.items()):
            if not there >= set(pair):
                continue
            for name, nbytes in dict(way.moved).items():
                total[name] = total.get(name, 0) + nbytes
        return total

    def close(self, timeout_s: float = 30.0) -> None:
        """Waits for transfers in progress, and releases queues and memory; idempotent.

        If a transfer was abandoned, the wait is at most BRIEFLY_S. Raises FenceTimeout as Way.close
        does, after all links have been closed.
        """
        ways, self._ways = list(self._ways.values()), {}
        left = any(way.unended for way in ways)
        deadline = time.monotonic() + (min(timeout_s, BRIEFLY_S) if left else timeout_s)

        def closed(way: Way) -> None:
            way.close(max(0.0, deadline - time.monotonic()))

        with ExitStack() as stack:
            for way in ways:
                stack.callback(closed, way)


def run_on_arrays(
    program: Program,
    arrays: Mapping[str, Array],
    ways: Ways,
    op: str = "sum",
    outs: Mapping[str, Array] | None = None,
    began: Event | None = None,
    **clocked: Any,
) -> list[runner.Ran]:
    """Runs `program` on Arrays. `arrays` and `outs` are dicts: URI -> Array, of one dtype.

    A region of the program names its memory "data", "out" or "temp". "data" means the Array in
    `arrays`, "out" that in `outs`. `op` is a key of EXPRESSIONS.

    Waits first for earlier work on the arrays; the work of the program has ended when this returns.
    `began` is set before the first step begins. `clocked` is passed on to runner.run. If a step
    fails, its error is raised, with the name of the step. The arrays then hold undefined data.
    """
    outs = outs or {}
    for array in (*arrays.values(), *outs.values()):
        if array.fence is not None:
            array.fence.wait()
    with ExitStack() as stack:
        temps = {
            uri: stack.enter_context(ways.devices[uri].buffer(nbytes))
            for uri, nbytes in _temp_nbytes(program).items()
        }
        act = _Act(arrays, outs, temps, ways, EXPRESSIONS[op])
        if began is not None:
            began.set()
        return runner.run(program, act.begin, **clocked)


def _temp_nbytes(program: Program) -> dict[str, int]:
    """Returns the bytes of scratch memory that the program uses at each URI."""
    most: dict[str, int] = {}
    for step in program.steps:
        for region in (step.what.src, step.what.dst):
            if region.memory == "temp":
                end = region.offset + region.nbytes
                most[region.place] = max(end, most.get(region.place, 0))
    return most


class _Act:
    """Begins the copies and reductions of one run of a program."""

    def __init__(
        self,
        arrays: Mapping[str, Array],
        outs: Mapping[str, Array],
        temps: Mapping[str, Buffer],
        ways: Ways,
        text: str,
    ) -> None:
        self.memories = {
            "data": {uri: array.buffer for uri, array in arrays.items()},
            "out": {uri: array.buffer for uri, array in outs.items()},
            "temp": temps,
        }
        self.ways, self.text = ways, text
        self.dtype = next(iter((*arrays.values(), *outs.values()))).dtype

    def begin(self, step: Step) -> Begun | None:
        what: RegionCopy | Reduce = step.what
        if isinstance(what, RegionCopy):
            if what.src.place == what.dst.place:
                copy = Commands().copy(self.buffer(what.dst), self.buffer(what.src))
                return self.ways.devices[what.dst.place].default_queue.submit(copy)
            way = self.ways.between(what.src.place, what.dst.place)
            move = way.move if step.lane.to else way.push
            return move(self.buffer(what.src), self.buffer(what.dst))
        return self.reduced(what)

    def buffer(self, region: Region) -> Buffer:
        whole = self.memories[region.memory][region.place]
        return whole.view(region.offset, region.nbytes)

    def reduced(self, what: Reduce) -> Begun | None:
        """Begins the reduction dst = op(dst, src) on the device of `dst`. It reads a `src` in
        another device's memory in place, without a copy.
        """
        device, source = self.ways.devices[what.dst.place], self.buffer(what.src)
        if what.src.place != what.dst.place:
            source = device.wrap(self.elements(source).numpy())
        a, b = self.elements(self.buffer(what.dst)), self.elements(source)
        made: Array = ops.map(device, self.text, a=a, b=b, out=a)
        return made.fence

    def elements(self, buffer: Buffer) -> Array:
        return buffer.array(self.dtype, buffer.nbytes // self.dtype.itemsize)
