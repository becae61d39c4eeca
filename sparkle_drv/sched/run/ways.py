"""The ways between devices: measured when they are first needed, kept, and gone by an array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceLost, FenceTimeout, KernelFault
from sparkle_drv.mesh import survey
from sparkle_drv.mesh.lanes.transports import NoWay
from sparkle_drv.mesh.links import probe
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.mesh.measured import BACK, INTO, between
from sparkle_drv.telemetry import progress

if TYPE_CHECKING:
    from .arrays import ContextArray
    from .local import LocalExecutor


class CopyLost(DeviceLost):
    """The only copies of an operand went with their device: no other device can do the work."""


def know_host(executor: LocalExecutor, uri: str) -> bool:
    """Measure the ways from the host and to it, where they are not known and not free; are they
    known then?
    """
    device, links = executor.devices[uri], executor.costs.links

    def known() -> bool:
        return device.info.unified or ((HOST, uri) in links and (uri, HOST) in links)

    def measure() -> None:
        with progress.told(f"measuring transfers of {uri}"):
            into, back = probe.links(device, executor.clock_of(device))
        executor.learn(uri, {INTO: into, BACK: back})

    return executor.probed(HOST, uri, known, measure)


def know(executor: LocalExecutor, sources: Iterable[str], uris: Sequence[str]) -> None:
    """Measure what is not known yet: from each of `sources` to each of `uris`."""
    costs = executor.costs
    for source in sorted(set(sources) & executor.devices.keys()):
        for to in uris:
            if source == to or costs.nodes[source].lost:
                continue
            known = partial(costs.links.__contains__, (source, to))
            measure = partial(_measure, executor, executor.devices[source], executor.devices[to])
            # Whose fault it is the next call on either will say. What is guessed in its place is
            # made of the ways of the host.
            if not executor.probed(source, to, known, measure, own=False):
                know_host(executor, source)
                know_host(executor, to)


def _measure(executor: LocalExecutor, source: Device, to: Device) -> None:
    clock = executor.clock_of(to if to.clock is not None else source)
    with progress.told(f"measuring transfers from {source.uri} to {to.uri}"):
        points = survey.way(executor.ways, source.uri, to.uri, clock=clock)
    executor.learn(to.uri, {between(source.info): points})


def bring(executor: LocalExecutor, array: ContextArray, device: Device) -> Array:
    """A new Array on `device` with the elements of `array`, from the nearest copy that can be had.

    Each copy goes into memory of its own: after a timeout, its device may still write there. Raises
    NoWay when no transport carries a copy that is there, CopyLost when all copies are lost, and
    what `device` raises.
    """
    places, to = array.copies, device.uri
    lost, no_way = list[str](), list[str]()
    if not array.nbytes:
        return device.empty(array.shape, array.dtype, array.layout)
    for uri in executor.costs.nearest(array.nbytes, frozenset(places), to):
        made = device.empty(array.shape, array.dtype, array.layout)
        asked: list[str] = []
        try:
            executor.ways.fill(made, places[uri], asked.append)
            return made
        except NoWay as error:  # the next copy has another way
            no_way.append(str(error))
        except (DeviceLost, FenceTimeout, KernelFault) as error:
            if asked[-1] != uri:
                raise
            executor.failed(uri, error)
            lost.append(str(error))
    why = "; ".join((*no_way, *lost))
    if no_way:
        raise NoWay(why)
    raise CopyLost(f"{', '.join(places)}: an operand went with it: {why}")
