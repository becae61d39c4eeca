"""Operands and results of a call that several devices share.

Each operand is copied once to each device that reads it. Copies use queues of their own and overlap
with computing. An operand that every piece reads whole is copied from the host. If the driver can
copy it from another device directly, and that is faster, it is copied from there instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import SparkleError
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.shard.cuts import Cut

from . import ways
from .arrays import ContextArray, on_host
from .local import LocalExecutor


class Operands:
    """The arguments of a call: numpy arrays, ContextArrays and None.

    Threads of several devices share this object. At most one thread of each device copies at a
    time.
    """

    def __init__(
        self, executor: LocalExecutor, operands: Mapping[str, Any], prefer_p2p: bool = True
    ) -> None:
        self.host: dict[str, Any] = {name: on_host(x) for name, x in operands.items()}
        self._executor, self._given, self._p2p = executor, operands, prefer_p2p
        self._there: dict[tuple[str, str], Array] = {}

    def cut(self, cut: Cut, begin: int, end: int) -> dict[str, Any]:
        """Returns the operands of a piece on the host: views."""
        return cut.given(self.host, begin, end)

    def on(self, device: Device, cut: Cut, begin: int, end: int) -> dict[str, Any]:
        """Returns the operands of a piece, copied to the device if it has memory of its own."""
        views = self.cut(cut, begin, end)
        if device.info.unified:
            return views
        return {
            name: self._whole(device, name) if cut.operands[name] is None
            else sent(device, x, self._queue(device, HOST))
            for name, x in views.items()
        }  # fmt: skip

    def fetched(self, result: Any) -> np.ndarray[Any, Any]:
        """Returns the result `result` as a numpy array. Waits for the copy to the host, if one is
        needed.
        """
        if not isinstance(result, Array):
            return np.asarray(result)
        if result.device.info.unified:
            return result.numpy()
        out = np.empty(result.shape, result.dtype)
        reading = self._queue(result.device, "").read(result.buffer, out.reshape(-1).view(np.uint8))
        reading.wait(result.device.default_queue.timeout_s)
        return out

    def _queue(self, device: Device, way: str) -> Queue:
        queues = self._executor.queues
        found = queues.get((device.uri, way))
        if found is None or found.closed:
            found = queues[device.uri, way] = device.queue()
        return found

    def _whole(self, device: Device, at: str) -> Array:
        """Returns the operand `at`, which each piece reads whole, as an Array on `device`. It is
        copied there once for all pieces.
        """
        found = self._there.get((at, device.uri))
        if found is None:
            found = self._there[at, device.uri] = self._bring(device, at)
        return found

    def _bring(self, device: Device, at: str) -> Array:
        x, host = self._given[at], self.host[at]
        if isinstance(x, ContextArray) and device.uri in x.places:
            return x._read(device.uri)
        source = self._nearest(device, at, host.nbytes) if self._p2p else None
        if source is not None:
            made = device.empty(host.shape, host.dtype, source.layout)
            try:
                ways.fill(self._executor.ways, made, source)
                return made
            except SparkleError:  # the host has a copy of the operand, too, which is sent below
                pass
        return sent(device, host, self._queue(device, HOST))

    def _nearest(self, device: Device, at: str, nbytes: int) -> Array | None:
        """Returns a copy of the operand `at` that lies on a peer of `device`, if it arrives
        sooner from there than from the host. Otherwise returns None.
        """
        links = self._executor.costs.links
        there = [array for (name, _), array in list(self._there.items()) if name == at]
        x = self._given[at]
        if isinstance(x, ContextArray):
            there += x._copies.values()
        peers = [array for array in there if device.is_peer(array.device)]
        if not peers:
            return None
        from_host_s = links[HOST, device.uri].at(nbytes)

        def seconds(array: Array) -> float:
            line = links.get((array.device.uri, device.uri))
            return from_host_s if line is None else line.at(nbytes)

        best = min(peers, key=seconds)
        return best if seconds(best) < from_host_s else None


def sent(device: Device, x: np.ndarray[Any, Any], queue: Queue) -> Array:
    """Copies `x` to the device, waits, and returns the copy."""
    copy = device.empty(x.shape, x.dtype)
    if x.nbytes:
        sending = queue.write(copy.buffer, np.ascontiguousarray(x).reshape(-1).view(np.uint8))
        sending.wait(device.default_queue.timeout_s)
    return copy
