"""The ways between devices: measured when they are first needed, kept, and gone.

Devices of one backend copy to one another (`Queue.copy_peer`), others by way of the host, as those
do whose copy was refused. What is measured of a pair is the way that its arrays then go, and the
taking of memory at the end of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceLost, SparkleError
from sparkle_drv.mesh.links import probe
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.mesh.measured import BACK, INTO, between
from sparkle_drv.telemetry import progress

if TYPE_CHECKING:
    from .arrays import ContextArray
    from .local import LocalExecutor

log = logging.getLogger("sparkle_drv.sched")


class CopyLost(DeviceLost):
    """The only copies of an operand went with their device: no other device can do the work."""


def know_host(executor: LocalExecutor, uri: str) -> bool:
    """Measure the ways from the host and to it, where they are not known and not free; are they
    known then?
    """
    device, links = executor.devices[uri], executor.costs.links
    if device.info.unified or ((HOST, uri) in links and (uri, HOST) in links):
        return True

    def measure() -> None:
        with progress.told(f"measuring transfers of {uri}"):
            into, back = probe.links(device, executor.clock_of(device))
        executor.learn(uri, {INTO: into, BACK: back})

    return executor.probed(HOST, uri, measure)


def know(executor: LocalExecutor, sources: Iterable[str], uris: Sequence[str]) -> None:
    """Measure what is not known yet: from each of `sources` to each of `uris`."""
    costs = executor.costs
    for source in sorted(set(sources) & executor.devices.keys()):
        for to in uris:
            pair = source, to
            if source == to or pair in costs.links or costs.nodes[source].lost:
                continue
            measure = partial(_measure, executor, executor.devices[source], executor.devices[to])
            # Whose fault it is the next call on either will say. What is guessed in its place is
            # made of the ways of the host.
            if not executor.probed(source, to, measure, own=False):
                know_host(executor, source)
                know_host(executor, to)


def _measure(executor: LocalExecutor, source: Device, to: Device) -> None:
    def move(x: Array, made: Array) -> None:
        if not by_peer(executor, x, made):
            by_host(x.numpy(), made)

    clock = executor.clock_of(to if to.clock is not None else source)
    with progress.told(f"measuring transfers from {source.uri} to {to.uri}"):
        points = probe.way(source, to, move, clock)
    executor.learn(to.uri, {between(source.info): points})


def bring(executor: LocalExecutor, array: ContextArray, made: Array) -> None:
    """Fill `made` with the elements of `array`, from the copy that is nearest.

    Raises CopyLost when all of them are lost, and what the device of `made` raises.
    """
    places = array.copies
    to, why = made.device.uri, ""
    for uri in executor.costs.nearest(array.nbytes, frozenset(places), to):
        try:
            if by_peer(executor, places[uri], made):
                return
            host = places[uri].numpy()
        except DeviceLost as error:
            executor.failed(uri, error)
            why = str(error)
            continue
        by_host(host, made)
        return
    raise CopyLost(f"{', '.join(places)}: an operand went with it: {why}")


def by_peer(executor: LocalExecutor, source: Array, made: Array) -> bool:
    """Copy from one device to another of its backend, to the end; False: it must go over the host.

    The end is waited for: whoever writes over the source does so on a queue that knows nothing of
    this one. Raises what waiting for the source does.
    """
    here, there = source.device, made.device
    pair = here.uri, there.uri
    if not there.is_peer(here) or pair in executor.over_host:
        return False
    if source.fence is not None:
        source.fence.wait()
    try:
        target, given = (x.buffer.view(0, x.nbytes) for x in (made, source))
        there.default_queue.copy_peer(target, given).wait()
    except (SparkleError, OSError) as error:
        log.warning("%s to %s: by way of the host from now on: %s", *pair, error)
        executor.over_host.add(pair)
        return False
    return True


def by_host(host: np.ndarray[Any, Any], made: Array) -> None:
    """Copy from the host, behind what the queue of `made`'s device has now; `host` may change."""
    plain = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    made.fence = made.device.default_queue.write(made.buffer, plain)
