"""Mesh: several devices, what the ways between them take, and collectives of arrays on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.device import Device
from sparkle_drv.errors import SparkleError
from sparkle_drv.telemetry import progress

from .collective.choose import Plan, plan_all_reduce
from .lanes.carry import EXPRESSIONS, Ways, carry
from .links import probe
from .links.line import Line, fit
from .links.network import Network
from .links.routes import explain_route

OPS = (*EXPRESSIONS, "mean")


class Mesh(Closing):
    """`Context.create_mesh` makes it; its devices stay their owner's. For one thread at a time.

    What the ways take is measured when it is first needed. `plan` is that of the last collective.
    """

    def __init__(self, devices: Sequence[Device], clock: Callable[[], float] = time.perf_counter):
        self.devices = {device.uri: device for device in devices}
        self.plan: Plan | None = None
        self._clock = clock
        self._ways = Ways(self.devices)
        self._network: Network | None = None
        self._plans: dict[tuple[int, int], Plan] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<Mesh of {', '.join(self.devices)}>"

    @property
    def network(self) -> Network:
        """Seconds by bytes of every way; measured now, the first time. Raises what devices do."""
        self._check_open()
        if self._network is None:
            links: dict[tuple[str, str], Line] = {}
            with progress.told(f"measuring the ways between {', '.join(self.devices)}"):
                for pair in permutations(self.devices, 2):
                    links[pair] = fit(self._measured(*pair))
            fast = {"shared", "peer"}
            direct = (pair for pair in links if self._ways.between(*pair).transport() in fast)
            self._network = Network(tuple(self.devices), links, direct=frozenset(direct))
        return self._network

    def _measured(self, source: str, to: str) -> list[tuple[float, float]]:
        way = self._ways.between(source, to)

        def move(x: Array, made: Array) -> None:
            if x.fence is not None:
                x.fence.wait()
            fence = way.move(x.buffer.view(0, x.nbytes), made.buffer.view(0, made.nbytes))
            if fence is not None:
                fence.wait()

        device = self.devices[to]
        return probe.way(self.devices[source], device, move, device.clock or self._clock)

    @property
    def moved(self) -> dict[str, int]:
        """Bytes that went over the ways so far, by transport (lanes/transports.py)."""
        return self._ways.moved()

    def explain_route(self, source: str, to: str, nbytes: int) -> str:
        """How bytes would best get from one device to another, and why. Raises ValueError."""
        return explain_route(self.network, source, to, nbytes)

    def all_reduce(self, arrays: Sequence[Array], op: str = "sum") -> None:
        """Fill each of `arrays` with the sum, max or mean of all, element by element.

        One Array on each device of the mesh, all of one shape and dtype. Returns when all of them
        are done. Raises ValueError and TypeError before anything is changed. If a device fails, its
        error says that the arrays hold partial results.
        """
        self._check_open()
        given = self._checked(arrays, op)
        first = next(iter(given.values()))
        nbytes, itemsize = first.nbytes, first.dtype.itemsize
        key = nbytes, itemsize
        if key not in self._plans:
            self._plans[key] = plan_all_reduce(self.network, nbytes, itemsize)
        self.plan = self._plans[key]
        try:
            carry(self.plan.program, given, self._ways, "max" if op == "max" else "sum")
            if op == "mean":
                self._divide(given)
        except SparkleError as error:
            text, *more = error.args or ("",)
            error.args = (f"all_reduce: {text}; the arrays hold partial results", *more)
            raise

    def _divide(self, given: dict[str, Array]) -> None:
        count = len(given)
        made = [
            ops.map(array.device, "a / n", a=array, n=count, out=array) for array in given.values()
        ]
        for array in made:
            probe.fenced(array)

    def _checked(self, arrays: Any, op: str) -> dict[str, Array]:
        """The arrays by URI, in the order of the mesh."""
        if op not in OPS:
            raise ValueError(f"op: expected one of {', '.join(OPS)}, got {op!r}")
        if not isinstance(arrays, (list, tuple)):
            raise TypeError(f"arrays: expected a list of Arrays, got {type(arrays).__name__}")
        if len(arrays) != len(self.devices):
            raise ValueError(f"arrays: expected {len(self.devices)}, got {len(arrays)}")
        found: dict[str, Array] = {}
        for at, array in enumerate(arrays):
            if not isinstance(array, Array):
                raise TypeError(f"arrays: expected an Array at {at}, got {type(array).__name__}")
            if array.closed:
                raise ValueError(f"arrays: expected an open Array at {at}, got a closed one")
            uri = array.device.uri
            if self.devices.get(uri) is not array.device or uri in found:
                raise ValueError(f"arrays: expected one for each of {self!r}, got {uri} at {at}")
            if array.buffer.readonly:
                raise ValueError(f"arrays: expected a writable Array at {at}, got a read-only one")
            if (array.shape, array.dtype) != (arrays[0].shape, arrays[0].dtype):
                raise ValueError(
                    f"arrays: expected {arrays[0].dtype}{list(arrays[0].shape)} at {at}, "
                    f"got {array.dtype}{list(array.shape)}"
                )
            found[uri] = array
        kind = arrays[0].dtype
        if kind.name not in ("float32", "float64", "int32"):
            raise TypeError(f"arrays: expected float32, float64 or int32, got {kind}")
        if op == "mean" and kind.kind != "f":
            raise TypeError(f"op: expected an array of floats for 'mean', got {kind}")
        return {uri: found[uri] for uri in self.devices}

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("expected an open Mesh, got a closed one")

    def close(self) -> None:
        """Let go of queues and memory of the ways; idempotent. The devices stay open."""
        self._closed = True
        self._ways.close()
