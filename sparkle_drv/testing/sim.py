"""`sim:gpu0`, `sim:7/gpu0`: simulated devices that can be opened, registered when
`sparkle_drv.testing` is imported.

Their results are right: the cpu backend computes them in host memory. Their times are virtual. They
follow from the rates, noise, drift and links of a simulated machine (simulated.py), and
`Device.clock` and the times of queues show them. A wait lets virtual time pass. `sim:7/gpu0` is a
device of `machine(7)`. `sim:gpu0` is a device of the process's machine: `machine(0)`, or another
machine inside `on`. `apply` makes planned faults happen (faults.py).

This file has over 400 lines because the Backend protocol is one class, and each of its calls has a
line or two here.
"""

from __future__ import annotations

import errno
import hashlib
import re
import threading
from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from sparkle_drv import assets
from sparkle_drv._native import ffi
from sparkle_drv.backends import abilities
from sparkle_drv.backends.base import ANY_EPOCH, Allocation, Backend, KernelSpec, Loaded, Settings
from sparkle_drv.backends.cpu.backend import CpuBackend
from sparkle_drv.core.abi import records
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceNotFound, OutOfDeviceMemory, check
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.types import DeviceInfo, Found, Memory

from .faults import MASK, NO_RECOVERY, Schedule
from .sim_clock import Clock, SimEvent
from .sim_faults import Faulty
from .sim_time import Costed, Meter, VirtualTimeline, WrittenRange
from .simulated import SimDevice, SimMachine, machine

_URI = re.compile(r"sim(?::(?:(\d+)/)?(\w+))?\Z")
_LOOK_S = 30 * 10**9
_machines: dict[int, SimMachine] = {}  # simulated machines by their seed
_lock = fork_lock()
_current: list[SimMachine] = []


def of_seed(seed: int) -> SimMachine:
    """Returns `machine(seed)`, made once per process."""
    with _lock:
        return _machines.setdefault(seed, machine(seed))


@contextmanager
def on(other: SimMachine) -> Iterator[SimMachine]:
    """Makes `sim:NAME` name the devices of this machine inside the block."""
    _current.append(other)
    try:
        yield other
    finally:
        _current.remove(other)


def apply(schedule: Schedule, device: Device) -> Faulty:
    """Makes the planned faults of `schedule` happen on this open device. Returns the object that
    counts the device's faults.
    """
    backend = device._backend
    if not isinstance(backend, SimBackend):
        raise TypeError(f"device: expected a sim: device, got {device.uri}")
    backend.faulty.apply(schedule)
    return backend.faulty


def resume(device: Device) -> None:
    """Ends the hanging jobs of a sim: device now. They do none of their work, and the device's
    queues continue. If the device is closed, this call frees the
    device's memory.
    """
    backend = device._backend
    assert isinstance(backend, SimBackend)
    clock = backend.machine.clock
    with clock.lock:
        for queue in list(backend._queues.values()):
            hung, queue.hung = queue.hung, 0
            if hung:
                queue.time.end(hung).known(clock.now_s)


@dataclass(eq=False)
class _SimQueue:
    """A queue of the cpu backend with its virtual times."""

    inner: Any
    timing: bool
    time: VirtualTimeline = field(default_factory=VirtualTimeline)
    failed: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By value: (errno, reason) of failed submissions that were not reported."""
    told: dict[int, tuple[int, str]] = field(default_factory=dict)
    stamps: deque[tuple[int, Any]] = field(default_factory=deque)
    """(value, the memory that it copies from)."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    hung: int = 0
    """The first value that is never reached; 0 if there is none."""


class SimBackend:
    """The cpu backend with virtual times and planned faults; everything else is the cpu
    backend's.
    """

    takes_threads = True

    def __init__(self, uri: str, name: str, machine: SimMachine, settings: Settings) -> None:
        self.machine, self.device = machine, machine.devices[name]
        self.faulty = Faulty()
        self._inner = CpuBackend(replace(settings, threads=settings.threads or 1))
        self._meter = Meter(machine, name)
        self._queues: WeakValueDictionary[int, _SimQueue] = WeakValueDictionary()
        self._taken = 0
        self._pinned: dict[int, int] = {}
        """By address: bytes of host memory. A copy from or to it uses the way to the host."""
        self.info = _info(uri, self.device, self._inner.info)
        self.kernels: Mapping[str, Any] = {
            name: entry["backends"]["cpu"]
            for name, entry in assets.manifest()["kernels"].items()
            if "cpu" in entry["backends"]
        }

    @staticmethod
    def discover(settings: Settings) -> Sequence[Found]:
        """Returns nothing, since a user must name a simulated device."""
        return []

    @staticmethod
    def open(uri: str, settings: Settings) -> SimBackend:
        match = _URI.match(uri)
        seed, name = (match[1], match[2] or "cpu") if match else (None, "")
        there = of_seed(int(seed or 0)) if seed or not _current else _current[-1]
        if f"sim:{name}" not in there.devices:
            known = ", ".join(there.devices)
            raise DeviceNotFound(f"{uri}: expected a device of the simulated machine ({known})")
        full = f"sim:{seed}/{name}" if seed else f"sim:{name}"
        return SimBackend(full, f"sim:{name}", there, settings)

    def __getattr__(self, name: str) -> Any:
        if name in ("failure", "hand_over", "fault", "_native", "_inner"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def clock(self) -> float:
        """Returns the seconds of the machine's clock."""
        return self.machine.clock.now_s

    def timestamp(self) -> int:
        return self._ns(self.clock())

    @property
    def lanes(self) -> Clock:
        """The machine's clock, which also counts the running lanes (threads) of a mesh program."""
        return self.machine.clock

    # Memory

    def alloc(self, nbytes: int, memory: Memory) -> Allocation:
        if code := self.faulty.call("alloc"):
            _refuse(code, f"{self.info.uri}: alloc")
        if self._taken + nbytes > self.info.memory_nbytes:
            raise OutOfDeviceMemory(
                f"{self.info.uri}: {nbytes} bytes asked for and {self._taken} taken, the "
                f"device has {self.info.memory_nbytes}"
            )
        made = self._inner.alloc(nbytes, memory)
        self._taken += nbytes
        return self._made(made, nbytes, nbytes if memory is not Memory.DEVICE else 0)

    def _made(self, allocation: Allocation, taken: int, of_host: int) -> Allocation:
        """Returns an allocation of this device. `taken` bytes count against the device's memory,
        and `of_host` bytes are in the host's memory.
        """
        if of_host and not self.info.unified:
            self._pinned[allocation.address] = of_host
        return replace(allocation, handle=_Held(allocation.handle, taken, allocation.address))

    def wrap(self, pointer: int, nbytes: int, owner: object) -> Allocation:
        return self._made(self._inner.wrap(pointer, nbytes, owner), 0, nbytes)

    def import_(self, fd: int, nbytes: int) -> Allocation:
        return self._made(self._inner.import_(fd, nbytes), 0, nbytes)

    def export(self, handle: _Held) -> int:
        return int(self._inner.export(handle.inner))

    def map(self, handle: _Held, nbytes: int) -> Any:
        if code := self.faulty.call("map"):
            _refuse(code, f"{self.info.uri}: map")
        return self._inner.map(handle.inner, nbytes)

    def free(self, handle: _Held) -> None:
        self._taken -= handle.nbytes
        self._pinned.pop(handle.address, None)
        self._inner.free(handle.inner)

    # Kernels

    def load(self, spec: KernelSpec) -> Loaded:
        made = self._inner.load(spec)
        self._meter.kernels[made.pointer] = Costed.of_spec(spec)
        return made

    # Queues

    def open_queue(self, timing: bool) -> _SimQueue:
        if code := self.faulty.call("context"):
            _refuse(code, f"{self.info.uri}: open a queue")
        made = _SimQueue(self._inner.open_queue(timing), timing)
        self._queues[self._inner.queue_pointer(made.inner)] = made
        return made

    def close_queue(self, queue: _SimQueue, timeout_ns: int) -> int:
        return int(self._inner.close_queue(queue.inner, timeout_ns))

    def queue_pointer(self, queue: _SimQueue) -> int:
        return int(self._inner.queue_pointer(queue.inner))

    def submitted(self, queue: _SimQueue) -> int:
        return int(self._inner.submitted(queue.inner))

    def settled(self, queue: _SimQueue) -> int:
        return int(self._inner.settled(queue.inner))

    def reached(self, queue: _SimQueue) -> int:
        values = range(1, int(self._inner.reached(queue.inner)) + 1)  # reached in this order
        past = self.machine.clock.past
        return bisect(values, False, key=lambda value: not past(queue.time.end(value)))

    def describe(self, queue: _SimQueue, value: int) -> Any:
        return self._inner.describe(queue.inner, value)

    def times(self, queue: _SimQueue, value: int) -> tuple[int, int] | None:
        found = queue.time.times(value) if queue.timing else None
        return None if found is None else (self._ns(found[0]), self._ns(found[1]) + 1)

    def wait(self, queue: _SimQueue, value: int, timeout_ns: int) -> int:
        code = self.faulty.call("wait")
        if code in (errno.EINTR, errno.EAGAIN):
            return -errno.ETIMEDOUT
        if code:
            return -code
        rc = int(self._inner.wait(queue.inner, value, timeout_ns))
        if rc == -errno.ETIMEDOUT:
            return rc
        # Sleeps without the queue's lock, since others may need the lock while virtual time passes.
        if not self.machine.clock.sleep(queue.time.end(value), timeout_ns / 1e9):
            return -errno.ETIMEDOUT
        with queue.lock:
            while queue.stamps and queue.stamps[0][0] <= value:
                queue.stamps.popleft()
            wrong = next((v for v in sorted(queue.failed) if v <= value), None)
            if wrong is not None:
                queue.told[value] = queue.told[wrong] = queue.failed.pop(wrong)
            return -queue.told[value][0] if value in queue.told else rc

    def failure(self, queue: _SimQueue, value: int) -> int:
        """Returns how the submission of a reached value ended: 0, or -errno if it failed. This call
        does not count as a report of the failure: a later wait still reports it.
        """
        with queue.lock:
            found = queue.told.get(value) or queue.failed.get(value)
        return -found[0] if found else 0

    def fault(self, queue: _SimQueue, value: int) -> str:
        """Returns why the submission of this value failed; "" if it did not."""
        found = queue.told.get(value) or queue.failed.get(value)
        return found[1] if found else ""

    def lost(self) -> str:
        """Returns why the device is lost; "" if it is not."""
        return self.faulty.lost

    def launch(self, queue: _SimQueue, record: bytes, nbytes: int, epoch: int) -> int:
        record = bytes(record[:nbytes])
        return self._job(
            queue,
            [(records.DISPATCH, record)],
            lambda: self._inner.launch(queue.inner, record, nbytes, epoch),
        )

    def prepare(self, queue: _SimQueue, record: bytes, epoch: int) -> Any:
        made = self._inner.prepare(queue.inner, record, epoch)
        return made if isinstance(made, int) else (queue, record, made)

    def run(self, prepared: Any) -> int:
        queue, record, inner = prepared
        return self._job(queue, [(records.DISPATCH, record)], lambda: self._inner.run(inner))

    def submit(self, queue: _SimQueue, data: Any, nbytes: int, epoch: int) -> int:
        raw = bytes(ffi.buffer(ffi.cast("char *", data), nbytes)) if nbytes else b""
        parts = [(kind, record) for _, kind, record in records.split(raw)]
        whole = sum(len(record) for _, record in parts) == nbytes
        if not whole:  # incomplete last record: the inner backend returns the error
            return int(self._inner.submit(queue.inner, data, nbytes, epoch))
        stamped, stamps = self._stamped(queue, parts)

        def act() -> int:
            block = ffi.new("char[]", stamped) if stamped else ffi.NULL
            value = int(self._inner.submit(queue.inner, block, len(stamped), epoch))
            queue.stamps.extend((value, stamp) for stamp in stamps if value > 0)
            return value

        return self._job(queue, parts, act)

    def room(self, queue: _SimQueue, timeout_ns: int) -> int:
        return self._inner.room(queue.inner, timeout_ns)

    def upload(self, queue: _SimQueue, address: int, data: memoryview) -> tuple[int, object]:
        return self._transfer(queue, data.nbytes, lambda: self._inner.upload(
            queue.inner, address, data))  # fmt: skip

    def download(self, queue: _SimQueue, address: int, out: memoryview) -> tuple[int, object]:
        return self._transfer(queue, out.nbytes, lambda: self._inner.download(
            queue.inner, address, out))  # fmt: skip

    def copy_peer(self, queue: _SimQueue, dst: int, src: int, nbytes: int, peer: Any) -> int:
        def act() -> tuple[int, object]:
            return self._inner.copy_peer(queue.inner, dst, src, nbytes, peer._inner), None

        pair = peer.device.uri, self.device.uri
        link = self.machine.links.get(pair) if peer.machine is self.machine else None
        if link is None:
            value, _ = self._transfer(queue, nbytes, act, peer._meter.transfer_s(nbytes))
            return value
        with self.machine.clock.lock:
            faults = link.comes()
        cut, slow = faults.get("cut"), faults.get("slow")
        if cut and not (cut.within and link.transfers == cut.at):
            return -errno.EIO
        begins = partial(
            self.machine.fabric.carry, pair, nbytes, factor=slow.factor if slow else 1.0
        )
        value, _ = self._transfer(queue, nbytes, act, begins=begins)
        if value > 0 and cut:
            queue.failed[value] = (errno.EIO, f"simulated cut of the link {pair[0]} to {pair[1]}")
        elif value > 0 and "corrupt" in faults and nbytes >= 4:
            self._inner.wait(queue.inner, value, _LOOK_S)
            ffi.cast("uint32_t *", dst)[0] ^= MASK
        return value

    def peer(self, other: Any) -> str:
        """Returns "direct" for the device itself and for devices with a link to this device.
        Returns "staged" for others, whose bytes go over the host.
        """
        linked = other.machine is self.machine and (
            other.device.uri, self.device.uri) in self.machine.links  # fmt: skip
        return "direct" if other is self or linked else "staged"

    def _transfer(
        self, queue: _SimQueue, nbytes: int, act: Any, more_s: float = 0.0, begins: Any = None
    ) -> tuple[int, object]:
        """Moves bytes to or from the host, in `more_s` more seconds than usual. With `begins`, the
        bytes go over a link between devices: `begins(begin_s)` starts the transfer.
        """
        if code := self._called("submit"):
            return -code, None
        at_once = None
        with queue.lock:
            before = self._inner.submitted(queue.inner)
            value, kept = act()
            # `act` made no new submission, but the queue hangs: an empty submission takes the
            # copy's place behind the hanging job
            if value == before and queue.hung:
                value = int(self._inner.submit(queue.inner, ffi.NULL, 0, ANY_EPOCH))
            if value > 0 or (value == 0 and nbytes):
                with self.machine.clock.lock:
                    begins = begins or self._lasts(more_s + self._meter.transfer_s(nbytes))
                    new = value if value != before else 0
                    end = queue.time.runs(new, self.clock(), begins)
                if value == before:  # no new submission: `act` has made the copy at once
                    at_once = end
                    # A wait for this value has already reported that a submission failed.
                    if value in queue.told:
                        value = 0
        if at_once is not None:
            self.machine.clock.sleep(at_once)
        return value, kept

    @staticmethod
    def _lasts(seconds: float) -> Callable[[float], SimEvent]:
        return lambda begin_s: SimEvent(begin_s + seconds)

    def _called(self, kind: str) -> int:
        """Counts a submitting call. Returns the errno with which the call fails, or 0. EINTR also
        gives 0, since a driver retries such a call.
        """
        code = self.faulty.call(kind)
        return 0 if code == errno.EINTR else code

    def _job(self, queue: _SimQueue, parts: list[tuple[int, bytes]], act: Any) -> int:
        """Submits a job by calling `act`, with the planned faults of this job, and gives it virtual
        times.
        """
        if code := self._called("submit"):
            return -code
        faults = {fault.what: fault for fault in self.faulty.job()}
        with queue.lock:
            ended = next((w for w in ("unplug", "reset", "hang", "pagefault") if w in faults), "")
            if ended and self.faulty.lost:
                return -errno.ENODEV
            if ended:  # the job does nothing; waiting for its timeline value reports the fault
                value = int(self._inner.submit(queue.inner, ffi.NULL, 0, ANY_EPOCH))
                never = faults[ended].parameters.get("recovery") == NO_RECOVERY
                if value > 0:
                    with self.machine.clock.lock:
                        queue.hung = queue.hung or (value if never else 0)
                        ends = (lambda begin_s: SimEvent()) if never else self._lasts(0.0)
                        queue.time.runs(value, self.clock(), ends)
                if value > 0 and not never:
                    queue.failed[value] = (errno.EIO, f"simulated {faults[ended]}")
                return value
            corrupt = faults.get("corrupt")
            regions = list(self._meter.written(parts)) if corrupt else []
            before = self._held(queue, regions)
            value = int(act())
            if value > 0:
                self._meter.slow = float(faults["slow"].parameters["factor"]) if (
                    "slow" in faults) else 1.0  # fmt: skip
                after, seconds = self._took(parts)
                self._meter.slow = 1.0
                with self.machine.clock.lock:
                    queue.time.took(value, self.clock(), seconds, after)
                if corrupt:
                    self._corrupt(queue, regions, before, corrupt.parameters)
        return value

    def _took(self, parts: list[tuple[int, bytes]]) -> tuple[list[SimEvent], float]:
        """Returns the events that the submission waits for, and the seconds that its command
        records take after these events.
        """
        after, seconds = list[SimEvent](), 0.0
        for kind, record in parts:
            if kind == records.DISPATCH:
                seconds += self._meter.dispatch_s(record)
            elif kind == records.COPY and self._crosses(record):
                seconds += self._meter.transfer_s(records.fields(kind, record)[2])
            elif kind in (records.COPY, records.FILL):
                seconds += self._meter.copy_s(sum(r.nbytes for r in self._meter.written(
                    [(kind, record)])))  # fmt: skip
            elif kind == records.WAIT:
                pointer, value = records.fields(kind, record)
                other = self._queues.get(pointer)
                after += [other.time.end(value)] if other else []
        return after, seconds

    def _crosses(self, record: bytes) -> bool:
        ends = records.fields(records.COPY, record)[:2]
        spans = list(self._pinned.items())
        return any(at <= end < at + nbytes for end in ends for at, nbytes in spans)

    def _stamped(self, queue: _SimQueue, parts: list[tuple[int, bytes]]) -> tuple[bytes, list[Any]]:
        """Replaces each timestamp record by a copy of a virtual time. Returns the records, and the
        memory of these times.
        """
        out: list[bytes] = []
        stamps: list[Any] = []
        done = 0.0
        for kind, record in parts:
            if kind == records.TIMESTAMP:
                at = max(self.clock(), queue.time.busy.at_s or 0.0) + done
                stamps.append(ffi.new("uint64_t *", self._ns(at) + 1 + len(stamps)))
                (slot,) = records.fields(kind, record)
                source = int(ffi.cast("uintptr_t", stamps[-1]))
                record = records.copy(slot, source, 8)
            elif kind == records.DISPATCH and any(k == records.TIMESTAMP for k, _ in parts):
                costed, args = self._meter.dispatched(record)
                if costed is not None:
                    done += self.device.mean_s(costed.name, costed.size(args))
            out.append(record)
        return b"".join(out), stamps

    def _held(self, queue: _SimQueue, regions: list[WrittenRange]) -> list[bytes]:
        if regions:
            self._inner.wait(queue.inner, self._inner.submitted(queue.inner), _LOOK_S)
        return [bytes(ffi.buffer(ffi.cast("char *", r.address), r.nbytes)) for r in regions]

    def _corrupt(
        self,
        queue: _SimQueue,
        regions: list[WrittenRange],
        before: list[bytes],
        how: Mapping[str, Any],
    ) -> None:
        """Xors one dword that the job has changed."""
        after = self._held(queue, regions)
        changed = [
            (region, at)
            for region, old, new in zip(regions, before, after, strict=True)
            for at in range(0, len(new) - 3, 4)
            if old[at : at + 4] != new[at : at + 4]
        ]
        if changed:
            region, at = changed[int(how["seed"]) % len(changed)]
            ffi.cast("uint32_t *", region.address + at)[0] ^= int(how["mask"])
            self.faulty.corrupted()

    @staticmethod
    def _ns(seconds: float) -> int:
        return int(seconds * 1e9)


@dataclass(frozen=True)
class _Held:
    """Memory of the cpu backend, and how many bytes of the device's memory it counts as."""

    inner: Any
    nbytes: int
    address: int = 0


def _info(uri: str, device: SimDevice, cpu: DeviceInfo) -> DeviceInfo:
    # Measurements are kept by driver name (sched/model/profile.py). The name contains a hash of the
    # rates, so that a device with other rates does not use them.
    fixed = repr((device.rates, device.to_s, device.noise, device.drift, device.other))
    known = hashlib.sha256(fixed.encode()).hexdigest()[:8]
    unified = device.to_s == (0.0, 0.0)
    return replace(
        cpu,
        uri=uri,
        backend="sim",
        name=f"simulated device {device.uri.partition(':')[2]}",
        kind="cpu" if unified else "other",
        driver=f"sparkle_drv testing, rates {known}",
        memory_nbytes=device.memory_nbytes or cpu.memory_nbytes,
        unified=unified,
        emulated=True,
        compute_units=1,
        shares=device.shares,
    )


def _refuse(code: int, call: str) -> None:
    if code == errno.ENOMEM:
        raise OutOfDeviceMemory(f"{call}: out of memory")
    if code not in (errno.EINTR, errno.EAGAIN):  # EINTR and EAGAIN are retried
        check(-code, call)


if TYPE_CHECKING:

    class _Claims(
        Backend,
        abilities.BringsKernels,
        abilities.KeepsLanes,
        abilities.KeepsTime,
        abilities.MakesRoom,
        abilities.TakesThreads,
        abilities.TellsFailure,
        abilities.TellsFault,
        abilities.TellsLoss,
        Protocol,
    ):
        """Lets mypy check that SimBackend fits the Protocols of all base classes named above."""

    _claims: type[_Claims] = SimBackend
