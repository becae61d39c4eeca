"""The backend: sparkle_drv's protocol over pyopencl.

Queues, epochs and waits are those of `sparkle_drv.plugin`; here is what only OpenCL knows: memory,
programs, and how a command is enqueued (work.py).
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyopencl as cl

import sparkle_drv as sp
from sparkle_drv import plugin
from sparkle_drv.plugin import abilities
from sparkle_opencl import devices
from sparkle_opencl import memory as svm
from sparkle_opencl.programs import Programs
from sparkle_opencl.trouble import translated
from sparkle_opencl.work import Work

_SETTLE_S = 30.0  # for what the backend itself waits for: zeroes, the clock, a peer's memory


class OpenCLBackend:
    """One device of one platform, in a context of its own."""

    def __init__(self, node: devices.Node) -> None:
        self.info = node.info
        self._device = node.device
        with translated("open", self.info.uri):
            self._context = cl.Context([node.device])
            self._own = self._new_queue()  # for zeroes and the clock
        self._on_host = bool(node.device.host_unified_memory)
        self._programs = Programs(self._context, node.device, self.info)
        self.kernels = self._programs.kernels
        self._loaded = plugin.Kernels(self.info, _refuses)
        self._lock = threading.Lock()  # of the next
        self._taken = 0  # bytes
        queues = plugin.Queues(self._loaded, self._start)
        self._queues = queues
        self.launch, self.prepare, self.run = queues.launch, queues.prepare, queues.run
        self.submit, self.check = queues.submit, queues.check
        self.epoch, self.advance = queues.epoch, queues.advance
        self.submitted, self.settled = queues.submitted, queues.settled
        self.reached, self.wait, self.failure = queues.reached, queues.wait, queues.failure
        self.times, self.describe, self.fault = queues.times, queues.describe, queues.fault
        self.queue_pointer, self.lost, self.said = queues.queue_pointer, queues.lost, queues.said
        self.close_queue, self.refusal = queues.close_queue, self._loaded.refusal

    @staticmethod
    def discover(settings: plugin.Settings) -> Sequence[sp.Found]:
        try:
            listed = devices.nodes()
        except sp.DeviceNotFound as error:
            return [sp.Found("opencl", "opencl", reason=str(error), advice=devices.ADVICE)]
        return [
            sp.Found("opencl", n.info.uri, None if n.why else n.info, reason=n.why) for n in listed
        ]

    @staticmethod
    def open(uri: str, settings: plugin.Settings) -> OpenCLBackend:
        which = uri.partition(":")[2] or "0"
        try:
            listed = devices.nodes()
        except sp.DeviceNotFound as error:
            raise sp.DeviceNotFound(f"{error}. {devices.ADVICE}") from None
        for node in listed:
            if node.info.uri == f"opencl:{which}":
                if node.why:
                    raise sp.DeviceNotFound(f"{uri}: {node.info.name}: {node.why}")
                return OpenCLBackend(node)
        there = ", ".join(node.info.uri for node in listed)
        raise sp.DeviceNotFound(f"{uri}: there are {there}")

    # Queues

    def _new_queue(self) -> Any:
        timed = cl.command_queue_properties.PROFILING_ENABLE
        return cl.CommandQueue(self._context, self._device, properties=timed)

    def open_queue(self, timing: bool) -> plugin.Timeline:
        with translated("open a queue", self.info.uri):
            return self._queues.open(self._new_queue(), timing)

    def _start(
        self, own: Any, commands: Sequence[plugin.Command], awaited: Sequence[plugin.Work]
    ) -> Work:
        work = Work()
        others = [other for other in awaited if isinstance(other, Work)]
        work.start(own, self._context, self._loaded, commands, others)
        return work

    # Memory

    def alloc(self, nbytes: int, memory: sp.Memory) -> plugin.Allocation:
        svm.total(self.info, self._device, nbytes, self._taken)
        host = self._on_host or memory is not sp.Memory.DEVICE
        block = svm.Block(self._context, nbytes, host, self.info.uri)
        if host:
            svm.zero(block)
        else:
            self._settled(cl.enqueue_svm_memfill(
                self._own, svm.pointer(block.address, block.nbytes), np.zeros(1, np.uint8),
                block.nbytes,
            ))  # fmt: skip
        with self._lock:
            self._taken += block.nbytes
        return plugin.Allocation(block, block.address)

    def _settled(self, event: Any) -> Any:
        """Waits for an event of the backend's own; DeviceLost when it does not come."""
        deadline, nap = time.monotonic() + _SETTLE_S, 20e-6
        self._own.flush()
        while (status := event.command_execution_status) > 0:
            if time.monotonic() >= deadline:
                raise sp.DeviceLost(f"{self.info.uri}: no answer within {_SETTLE_S:.0f} s")
            time.sleep(nap)
            nap = min(2 * nap, 1e-3)
        if status < 0:
            raise sp.DeviceLost(f"{self.info.uri}: status {status}")
        return event

    def free(self, handle: svm.Block) -> None:
        with self._lock:
            self._taken -= handle.nbytes
        freed = handle.drop()
        if self._queues.forked:
            _leak(freed)  # the driver's threads are not in this process

    def map(self, handle: svm.Block, nbytes: int) -> Any:
        if not handle.host:
            raise ValueError(
                f"map: the host does not reach memory of {self.info.uri}; use Memory.HOST, read "
                "and write"
            )
        return handle.view(nbytes)

    def wrap(self, pointer: int, nbytes: int, owner: object) -> plugin.Allocation:
        if not self.info.unified:
            raise ValueError(
                f"wrap: {self.info.uri} cannot use host memory in place; copy it with Device.array"
            )
        return plugin.Allocation(_Wrapped(pointer, nbytes, owner), pointer)

    def export(self, handle: svm.Block) -> int:
        raise NotImplementedError("OpenCL's shared virtual memory stays within a process")

    def import_(self, fd: int, nbytes: int) -> plugin.Allocation:
        raise NotImplementedError("OpenCL's shared virtual memory stays within a process")

    def upload(self, queue: plugin.Timeline, address: int, data: memoryview) -> tuple[int, object]:
        if not data.nbytes:
            return queue.submitted, None
        source = svm.address_of(data)
        if self._on_host and self._queues.idle(queue):
            svm.move(address, source, data.nbytes)
            return queue.submitted, None
        staged = np.frombuffer(bytes(data), np.uint8)
        place = staged.__array_interface__["data"][0]
        return self._queues.copy(queue, address, place, data.nbytes), staged

    def download(self, queue: plugin.Timeline, address: int, out: memoryview) -> tuple[int, object]:
        if not out.nbytes:
            return queue.submitted, None
        target = svm.address_of(out)
        if self._on_host and self._queues.idle(queue):
            svm.move(target, address, out.nbytes)
            return queue.submitted, None
        return self._queues.copy(queue, target, address, out.nbytes), out

    def copy_peer(
        self, queue: plugin.Timeline, dst: int, src: int, nbytes: int, peer: plugin.Backend
    ) -> int:
        if peer is self:
            return self._queues.copy(queue, dst, src, nbytes)
        between = memoryview(bytearray(nbytes))  # contexts do not know each other's memory
        other = peer.open_queue(False)
        try:
            value, _ = peer.download(other, src, between)
            rc = value if value < 0 else peer.wait(other, value, int(_SETTLE_S * 1e9))
        finally:
            peer.close_queue(other, int(_SETTLE_S * 1e9))
        return self.upload(queue, dst, between)[0] if rc == 0 else rc

    # Kernels

    def load(self, spec: plugin.KernelSpec) -> plugin.Loaded:
        program, resources = self._programs.load(spec)
        entry = self._loaded.add(spec, resources, program)
        source = spec.manifest
        groups, size = (source.groups, source.group_size) if source is not None else ((), None)
        return plugin.Loaded(entry, entry.pointer, "grid", resources, groups, size)

    def unload(self, handle: plugin.Entry) -> None:
        self._loaded.remove(handle)
        if self._queues.forked:
            _leak(handle)

    # The rest

    def timestamp(self) -> int:
        with translated("timestamp", self.info.uri):
            return int(self._settled(cl.enqueue_marker(self._own)).profile.end)

    def sensors(self) -> dict[str, float]:
        return {}

    def live_counts(self) -> dict[str, int]:
        return svm.live()

    def close(self) -> None:
        if self._queues.forked:
            _leak(self)
            return
        self._queues.close()


class _Wrapped:
    """Host memory of somebody else, kept as long as it is in use."""

    host = True

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.address, self.nbytes, self._owner = address, nbytes, owner

    def view(self, nbytes: int) -> Any:
        return np.asarray(svm.Bytes(self.address, nbytes, self._owner))

    def drop(self) -> Any:
        owner, self._owner = self._owner, None
        return owner


def _refuses(entry: plugin.Entry, dispatch: plugin.Dispatch) -> str:
    """`shared=` is the size of a kernel's last __local argument, which is not among its `args`."""
    if entry.own.takes_local and not dispatch.shared_nbytes:
        return "shared: its last argument is __local, whose size in bytes that is"
    if dispatch.shared_nbytes and not entry.own.takes_local:
        return "shared: its last argument is not __local, there is nothing to give it to"
    return ""


def _leak(kept: object) -> None:
    """One reference that nobody gives back: OpenCL must not be called in a forked child."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


if TYPE_CHECKING:

    class _Claims(
        plugin.Backend,
        abilities.BringsKernels,
        abilities.TellsError,
        abilities.TellsFailure,
        abilities.TellsFault,
        abilities.TellsLoss,
        abilities.TellsRefusal,
        Protocol,
    ):
        """What mypy holds this backend to."""

    _claims: type[_Claims] = OpenCLBackend
