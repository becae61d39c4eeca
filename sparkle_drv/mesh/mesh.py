"""Mesh: several devices, the links between them, and collectives of arrays on them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import numpy.typing as npt

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.device import Device
from sparkle_drv.errors import FenceTimeout, SparkleError
from sparkle_drv.telemetry import progress

from . import arguments, bandwidth
from .arguments import Given, Taken
from .collective.choose import CollectivePlan, plan_all_reduce
from .collective.choose_moves import (
    plan_all_gather,
    plan_broadcast,
    plan_gather,
    plan_reduce_scatter,
    plan_scatter,
)
from .collective.fluid import timed
from .lanes.array_runner import Ways, run_on_arrays
from .lanes.program import Lane, Program
from .lanes.route_program import route_program
from .lanes.runner import Ran, clocked, explain
from .links import probe
from .links.network import Network
from .links.routes import Route, best_route, explain_route, reaches
from .survey import survey
from .survey_result import PointStore, load, store
from .topology import Topology

log = logging.getLogger("sparkle_drv.mesh")


class Mesh(Closing):
    """Several devices and the links between them. For one thread at a time.

    `Context.create_mesh` makes a Mesh. `close` leaves the devices open. It closes the queues and
    memory of the links (`ways`) unless the caller gave them. The links are measured when first
    needed. `plan` is the plan of the last collective.

    >>> with sp.init(["cpu"]) as ctx:
    ...     mesh, x = ctx.create_mesh(), ctx.array((4,), np.float32)
    ...     mesh.all_reduce([x], op="max")
    ...     mesh.topology.places
    ('cpu',)
    """

    BRIEFLY = Ways.BRIEFLY

    def __init__(
        self,
        devices: Sequence[Device],
        clock: Callable[[], float] = time.perf_counter,
        kept: PointStore | None = None,
        ways: Ways | None = None,
        health: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        for at, device in enumerate(devices):
            if not isinstance(device, Device):
                raise TypeError(f"devices[{at}]: expected a Device, got {device!r}")
        self.devices = {device.uri: device for device in devices}
        if not devices or len(self.devices) < len(devices):
            got = ", ".join(device.uri for device in devices) or "none"
            raise ValueError(f"devices: expected at least one Device, and each once, got {got}")
        self.plan: CollectivePlan | None = None
        self._clocked = clocked(devices, clock)
        self._ways = ways or Ways(self.devices)
        self._own_ways = ways is None
        self._health = health
        self._topology: Topology | None = None
        self._planned_for: Network | None = None
        self._plans: dict[tuple[int, int], CollectivePlan] = {}
        self._kept = kept
        self._closed = False

    def __repr__(self) -> str:
        return f"<Mesh of {', '.join(self.devices)}>"

    def health(self) -> dict[str, Any]:
        """Returns the Health (sched/health/device.py) of each device in its Context, by URI. A
        Health has `state`, `weight`, `why`, `story`, `explain()`. The dict is empty without a
        Context.
        """
        return {uri: its for uri, its in self._health().items() if uri in self.devices}

    @property
    def topology(self) -> Topology:
        """The measured links of the mesh. The first use measures them; an error of a device is
        raised, such as DeviceLost.
        """
        self._check_open()
        if self._topology is None:
            doing = progress.reported(f"measuring the ways between {', '.join(self.devices)}")
            with self._ways.measuring, doing:
                infos = {uri: device.info for uri, device in self.devices.items()}
                earlier = None if self._kept is None else load(self._kept, infos)
                earlier = earlier or self._ways.surveyed.get(frozenset(self.devices))
                measured = earlier or survey(self._ways, tuple(self.devices), **self._clocked)
                self._ways.surveyed[frozenset(self.devices)] = measured
                if self._kept is not None and earlier is None:
                    store(self._kept, infos, measured)
                for device in self.devices.values():
                    if not device.info.mem_bw_gbs and not device.info.emulated:
                        keep = self._kept is not None
                        device.learned(keep, mem_bw_gbs=bandwidth.measure(device))
            kinds = {pair: self._ways.between(*pair).transport() for pair in measured.ways}
            direct = frozenset(pair for pair, kind in kinds.items() if kind == "shared")
            self._topology = Topology(tuple(self.devices), measured, kinds, direct)
        return self._topology

    @property
    def network(self) -> Network:
        """The network that plans use: the topology, corrected by recent transfers."""
        return self.topology.network

    @property
    def moved(self) -> dict[str, int]:
        """Bytes that went over the links so far, by transport (lanes/transports.py). Calls and
        graphs of the Context count, and measurements, too.
        """
        return self._ways.moved(self.devices)

    def best_route(self, src: str, dst: str, nbytes: int) -> Route:
        """Returns the route with the least predicted seconds for `nbytes` between two devices
        (links/routes.py).

        Raises ValueError if the mesh has no such device, if there is no route, or if `nbytes` is
        negative. Raises TypeError for an argument of a wrong type.
        """
        given = *self._ends(src, dst), arguments.nbytes(nbytes)
        return best_route(self.network, *given)

    def explain_route(self, src: str, dst: str, nbytes: int) -> str:
        """Explains the best route and why it is taken. Raises as `best_route` does."""
        given = *self._ends(src, dst), arguments.nbytes(nbytes)
        return explain_route(self.network, *given)

    def _ends(self, src: str, dst: str) -> tuple[str, str]:
        return arguments.known(self, "src", src), arguments.known(self, "dst", dst)

    def plan_all_reduce(self, nbytes: int, dtype: npt.DTypeLike = "float32") -> CollectivePlan:
        """Returns the plan of all_reduce for arrays of `nbytes` each. Nothing is run.

        Raises ValueError if `nbytes` is negative or not a whole number of elements. Raises
        TypeError if `nbytes` is not a whole number, or if collectives cannot add this dtype.
        """
        itemsize = arguments.reduced("dtype", dtype).itemsize
        nbytes = arguments.nbytes(nbytes, itemsize)
        network = self.network
        if network is not self._planned_for:
            self._planned_for, self._plans = network, {}
        key = nbytes, itemsize
        if key not in self._plans:
            self._plans[key] = plan_all_reduce(network, nbytes, itemsize)
        return self._plans[key]

    def all_reduce(self, arrays: Sequence[Given], op: str = "sum") -> None:
        """Fills each of `arrays` with the sum, max or mean of all, element by element.

        `arrays` has one Array on each device of the mesh, all of one shape, dtype and layout. The
        i-th array may be a ContextArray: the i-th device then has its only valid copy afterwards.
        The call returns when all arrays are filled. Raises ValueError and TypeError before anything
        is changed. The message of a later error says that the arrays hold partial results, even
        that of a KeyboardInterrupt.
        """
        self._check_open()
        given = arguments.alike(self, "arrays", arrays)
        arguments.check_op(op, given.values())
        first = next(iter(given.values()))
        self._move("all_reduce", self.plan_all_reduce(first.nbytes, first.dtype), given, op=op)

    def copy(self, dst: Array, src: Array) -> Route:
        """Copies `src` to `dst`, on another device of the mesh, by the best route.

        Returns that route when all bytes have arrived. If a link fails, all bytes are sent again by
        the next best route. Before anything is changed, it raises TypeError unless both are Arrays.
        It then raises ValueError if an Array is closed or not of this mesh, `dst` is read-only,
        both are on one device, or shape, dtype or layout differ. If all routes fail, it raises the
        last route's error.
        """
        self._check_open()
        arguments.check_array(self, "src", src)
        arguments.check_array(self, "dst", dst, written=True)
        arguments.check_like("dst", dst, src)
        source, to, network = src.device.uri, dst.device.uri, self.network
        while True:
            route, lost = best_route(network, source, to, src.nbytes), list[Lane]()
            program, began = timed(route_program(route, src.nbytes), network), Event()
            name = f"copy by {' -> '.join(route.places)}"
            try:
                self._run(program, {source: src, to: dst}, began, failed=lost.append)
                return route
            except BaseException as error:
                left = {way: line for way, line in network.links.items() if way not in lost}
                network = replace(network, links=left)
                # After FenceTimeout the transfer still runs and may write to dst. So no other route
                # is tried, because it would write to dst at the same time.
                failed = isinstance(error, SparkleError) and not isinstance(error, FenceTimeout)
                if not failed or not lost or not reaches(network, source, to):
                    if began.is_set():
                        explain(error, f"{name}: ", "; dst holds a part")
                    raise
                log.warning("%s: %s; trying the next route", name, error)

    def broadcast(self, arrays: Sequence[Given], root: str | Given) -> None:
        """Fills each of `arrays` with the elements of `root`, a URI or one of the arrays.

        `arrays` has one Array on each device of the mesh, all of one shape and dtype. Raises as
        `all_reduce` does.
        """
        self._check_open()
        taken = arguments.alike(self, "arrays", arrays)
        uri = arguments.root(self, taken, root)
        first = taken[uri]
        plan = plan_broadcast(self.network, uri, first.nbytes, first.dtype.itemsize)
        self._move("broadcast", plan, taken)

    def scatter(self, src: Given, arrays: Sequence[Given]) -> None:
        """Fills `arrays` with parts of `src`.

        `src` is on any device of the mesh. `arrays` has one Array on each device. In the order of
        `devices`, the arrays are `src` cut along axis 0. Raises as `all_reduce` does.
        """
        self._check_open()
        parts = arguments.one_each(self, "arrays", arrays, written=True)
        whole = arguments.single_array(self, "src", src)
        ((root, array),) = whole.items()
        cut = arguments.parts("arrays", parts, "src", array)
        arguments.check_apart("arrays", whole, parts)
        self._move("scatter", plan_scatter(self.network, root, cut), whole, parts)

    def gather(self, arrays: Sequence[Given], dst: Given) -> None:
        """Fills `dst` with the elements of all `arrays`.

        `dst` is on any device of the mesh. `arrays` has one Array on each device. The arrays are
        joined along axis 0, in the order of `devices`. Raises as `all_reduce` does.
        """
        self._check_open()
        parts = arguments.one_each(self, "arrays", arrays)
        whole = arguments.single_array(self, "dst", dst, written=True)
        ((root, array),) = whole.items()
        cut = arguments.parts("arrays", parts, "dst", array)
        arguments.check_apart("dst", parts, whole)
        self._move("gather", plan_gather(self.network, root, cut), parts, whole)

    def all_gather(self, arrays: Sequence[Given], outs: Sequence[Given]) -> None:
        """Fills each of `outs`, one on each device, with all `arrays`, joined as in `gather`."""
        self._check_open()
        parts = arguments.one_each(self, "arrays", arrays)
        whole = arguments.alike(self, "outs", outs)
        cut = arguments.parts("arrays", parts, "outs", next(iter(whole.values())))
        arguments.check_apart("outs", parts, whole)
        self._move("all_gather", plan_all_gather(self.network, cut), parts, whole)

    def reduce_scatter(
        self, arrays: Sequence[Given], outs: Sequence[Given], op: str = "sum"
    ) -> None:
        """Fills `outs`, one on each device, with parts of the sum, max or mean of all `arrays`.

        `arrays` are as for `all_reduce`; they do not change. In the order of `devices`, the `outs`
        are the result cut along axis 0. Raises as `all_reduce` does.
        """
        self._check_open()
        whole = arguments.alike(self, "arrays", arrays, written=False)
        first = next(iter(whole.values()))
        arguments.check_op(op, whole.values())
        parts = arguments.one_each(self, "outs", outs, written=True)
        cut = arguments.parts("outs", parts, "arrays", first)
        arguments.check_apart("outs", whole, parts)
        plan = plan_reduce_scatter(self.network, cut)
        self._move("reduce_scatter", plan, whole, parts, op)

    def _move(
        self,
        name: str,
        plan: CollectivePlan,
        arrays: Taken,
        outs: Taken | None = None,
        op: str = "sum",
    ) -> None:
        self.plan, written = plan, arrays if outs is None else outs
        began = Event()
        try:
            self._run(plan.program, arrays, began, _added(op), outs)
            if op == "mean":
                self._divide(written)
        except BaseException as error:
            if began.is_set():
                explain(error, f"{name}: ", "; the arrays hold partial results")
            raise
        finally:
            if began.is_set():
                written.wrote()

    def _run(
        self,
        program: Program,
        arrays: dict[str, Array],
        began: Event,
        op: str = "sum",
        outs: dict[str, Array] | None = None,
        failed: Callable[[Lane], object] = id,
    ) -> None:
        """Runs a program. The times of its transfers correct the topology.

        `began` is set before the program's first step. `failed` is called with the lane of each
        step that fails.
        """
        topology = self.topology

        def note_failure(ran: Ran) -> None:
            topology.failed(ran.step.lane)
            failed(ran.step.lane)

        ran = run_on_arrays(
            program, arrays, self._ways, op, outs, began, failed=note_failure, **self._clocked
        )
        taken: dict[Lane, list[float]] = {}
        for step_run in ran:
            if step_run.step.lane.to:
                sums = taken.setdefault(step_run.step.lane, [0.0, 0.0, 0, 0])
                sums[0] += step_run.end_s - step_run.start_s
                sums[1] += step_run.step.predicted_s
                sums[2] += step_run.step.what.dst.nbytes
                sums[3] += 1
        for lane, (took_s, predicted_s, nbytes, count) in taken.items():
            if predicted_s:
                topology.took(lane, took_s / predicted_s, nbytes / count)

    def _divide(self, arrays: dict[str, Array]) -> None:
        count = len(self.devices)
        quotients = [
            ops.map(array.device, "a / n", a=array, n=count, out=array)
            for array in arrays.values()
            if array.size
        ]
        for array in quotients:
            probe.fenced(array)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("expected an open Mesh, got a closed one")

    def close(self, timeout_s: float = 30.0) -> None:
        """Stores the measured links, and releases the links that the mesh owns; idempotent.

        The devices stay open. A mesh of a Context uses the Context's links, which are released when
        the Context closes its devices.

        Raises FenceTimeout if a transfer is still running; its device ends the transfer when the
        device is closed. If an error abandoned a transfer, `close` waits only briefly for it.
        """
        if not self._closed and self._topology is not None:
            measured = self._ways.surveyed[frozenset(self.devices)] = self._topology.kept()
            if self._kept is not None:
                infos = {uri: device.info for uri, device in self.devices.items()}
                store(self._kept, infos, measured)
        self._closed = True
        if self._own_ways:
            self._ways.close(timeout_s)


def _added(op: str) -> str:
    """Returns the reduction that combines two elements. A mean is a sum, divided in the end."""
    return "max" if op == "max" else "sum"
