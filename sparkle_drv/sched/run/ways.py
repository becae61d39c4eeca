"""The links between devices: measures them when first needed, and copies arrays over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceLost, FenceTimeout, KernelFault
from sparkle_drv.mesh import survey
from sparkle_drv.mesh.lanes.array_runner import Ways
from sparkle_drv.mesh.lanes.program import Begun
from sparkle_drv.mesh.lanes.transports import Asks, NoWay
from sparkle_drv.mesh.links import probe
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.mesh.survey_result import BACK, INTO, between
from sparkle_drv.telemetry import progress

if TYPE_CHECKING:
    from .arrays import ContextArray
    from .local import LocalExecutor


Wait = Callable[[Begun, float], object]
"""Takes (work in progress, seconds). Waits for the work at most that long. Raises as the work's
`wait` does."""


def plainly(begun: Begun, timeout_s: float) -> None:
    """Waits for the work in progress `begun`, at most `timeout_s`, by one call of its `wait`."""
    begun.wait(timeout_s)


class CopyLost(DeviceLost):
    """All copies of an operand were lost with their devices: no device can do the work."""


def know_host(executor: LocalExecutor, uri: str) -> bool:
    """Measures the link between the host and a device if it is unknown. Returns whether it is known
    afterwards. A device on the host's memory needs no link, so it counts as known.
    """
    device, links = executor.devices[uri], executor.costs.links

    def known() -> bool:
        return device.info.unified or ((HOST, uri) in links and (uri, HOST) in links)

    def measure() -> None:
        with progress.reported(f"measuring transfers of {uri}"):
            into, back = probe.links(device, executor.clock_of(device))
        executor.learn(uri, {INTO: into, BACK: back})

    return executor.probed(HOST, uri, known, measure)


def know(executor: LocalExecutor, sources: Iterable[str], uris: Sequence[str]) -> None:
    """Measures the links from each of `sources` to each of `uris` that are unknown."""
    costs = executor.costs
    for source in sorted(set(sources) & executor.devices.keys()):
        for to in uris:
            if source == to or costs.nodes[source].lost:
                continue
            known = partial(costs.links.__contains__, (source, to))
            measure = partial(_measure, executor, executor.devices[source], executor.devices[to])
            # If the probe of a link fails, the next call on either device shows which one is at
            # fault. Until then the link is estimated from both devices' links with the host.
            if not executor.probed(source, to, known, measure, own=False):
                know_host(executor, source)
                know_host(executor, to)


def _measure(executor: LocalExecutor, source: Device, to: Device) -> None:
    clock = executor.clock_of(to if to.clock is not None else source)
    with progress.reported(f"measuring transfers from {source.uri} to {to.uri}"):
        points = survey.way(executor.ways, source.uri, to.uri, clock=clock)
    executor.learn(to.uri, {between(source.info): points})


def fill(
    ways: Ways, made: Array, source: Array, asks: Asks = id, wait: Wait = plainly
) -> None:  # fmt: skip
    """Copies the elements of `source` to `made`, an Array of the same size on another device. Waits
    for pending work on `source` first, and returns when the copy has ended.

    Nothing pending may use the memory of `made`. `asks` is called with the URI of the device that
    is about to be called (mesh/lanes/transports.py). Raises what `Way.move` and the waits raise.
    The wait for `source` may take its device's `timeout_s`; the wait for the transfer may take the
    larger `timeout_s` of both devices.
    """
    asks(made.device.uri)
    to_s = made.device.default_queue.timeout_s
    asks(source.device.uri)
    own_s = source.device.default_queue.timeout_s
    if source.fence is not None:
        wait(source.fence, own_s)
    given, target = (x.buffer.view(0, x.nbytes) for x in (source, made))
    moving = ways.between(source.device.uri, made.device.uri).move(given, target, asks)
    if moving is not None:
        wait(moving, max(own_s, to_s))


def bring(
    executor: LocalExecutor, array: ContextArray, device: Device, wait: Wait = plainly
) -> Array:
    """Returns a new Array on `device` with the elements of `array`, from the nearest reachable
    copy.

    Each attempt uses memory of its own: after a timeout, a device may still write to the memory of
    that attempt. Raises NoWay if no transport reaches a copy, CopyLost if all copies are lost, and
    what `device` raises.
    """
    places, to = dict(array._copies), device.uri
    lost, no_way = list[str](), list[str]()
    if not array.nbytes:
        return device.empty(array.shape, array.dtype, array.layout)
    for uri in executor.costs.nearest(array.nbytes, frozenset(places), to):
        copy = device.empty(array.shape, array.dtype, array.layout)
        called: list[str] = []
        try:
            fill(executor.ways, copy, places[uri], called.append, wait)
            return copy
        except NoWay as error:  # no way from this place: the loop tries the next one
            no_way.append(str(error))
        except (DeviceLost, FenceTimeout, KernelFault) as error:
            if called[-1] != uri:
                raise
            executor.failed(uri, error)
            lost.append(str(error))
    why = "; ".join((*no_way, *lost))
    if no_way:
        raise NoWay(why)
    raise CopyLost(f"{', '.join(places)}: an operand was lost with the device: {why}")
