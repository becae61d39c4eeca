"""Optional abilities of a backend beside the protocol of base.py, one Protocol each.

A backend has an ability if it has the ability's members; it inherits and registers nothing. A
member that is None counts as absent, so that a derived class can remove an ability with `room =
None`. core looks for most abilities once, when it opens a device (`Abilities`), and for the
others when they are needed. This file does not say what core does for a backend without an
ability. Queues, handles and records are those of `Backend`.
"""

# mypy: disable-error-code="type-abstract"
# (`ability` takes Protocols, which mypy otherwise keeps out of a parameter of type[...].)

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any, Protocol, TypeVar, cast

from sparkle_drv.backends import base
from sparkle_drv.backends.base import Allocation


class TellsRefusal(Protocol):
    """A backend that can explain a refused dispatch beyond an errno.

    >>> abilities.members(abilities.TellsRefusal)
    ['refusal']
    """

    def refusal(self, record: bytes, rc: int) -> str:
        """Returns why `check` refused this record; "" if the reason is unknown."""


class TellsFault(Protocol):
    """A backend that can explain a failed submission beyond an errno.

    >>> abilities.members(abilities.TellsFault)
    ['fault']
    """

    def fault(self, queue: Any, value: int) -> str:
        """Returns how the submission failed; "" if the reason is unknown."""


class TellsLoss(Protocol):
    """A backend that knows why a device was lost.

    >>> abilities.members(abilities.TellsLoss)
    ['lost']
    """

    def lost(self) -> str:
        """Returns why the device is lost; "" while it is not."""


class TellsError(Protocol):
    """A backend that keeps its driver's messages about each thread's calls.

    >>> abilities.members(abilities.TellsError)
    ['said']
    """

    def said(self) -> str:
        """Returns the driver's message about the last call of this thread that returned -errno.
        Returns "" if there is no message.
        """


class TellsFailure(Protocol):
    """A backend with a method `failure`, which returns the -errno of a submission.

    Unlike `wait`, `failure` does not mark the failure as reported.

    >>> abilities.members(abilities.TellsFailure)
    ['failure']
    """

    def failure(self, queue: Any, value: int) -> int:
        """Returns 0 or the -errno with which a submission ended. `value` is the submission's
        timeline value, which has been reached.
        """


class Exports(Protocol):
    """A backend that can share its own memory with other processes.

    >>> abilities.members(abilities.Exports)
    ['alloc_exportable']
    """

    def alloc_exportable(self, nbytes: int) -> Allocation:
        """Allocates as `alloc` of Memory.DEVICE does; `export` accepts the handle. Raises
        NotImplementedError if the driver cannot share memory.
        """


class SharesStreams(Protocol):
    """A backend whose memory other libraries of the process use in place, and whose queues they use
    as streams.

    A `stream` is a handle, or a number as in DLPack and the CUDA array interface: 1 is the legacy
    default stream, 2 the calling thread's default stream. No method makes the host wait.

    >>> abilities.members(abilities.SharesStreams)
    ['dlpack', 'owns', 'adopt', 'share_stream', 'wait_stream', 'order_stream']
    """

    @property
    def dlpack(self) -> tuple[int, int]:
        """(device type, device id) of DLPack's DLDevice: (2, 0) is the first CUDA device."""

    def owns(self, address: int) -> bool:
        """Returns whether the memory at `address` is on the device, whoever allocated it."""

    def adopt(self, address: int, nbytes: int, owner: object) -> Allocation:
        """Returns an Allocation of memory that another library allocated, in place. `owner` is kept
        alive until `free`.

        Raises ValueError for memory that is not on this device.
        """

    def share_stream(self, queue: Any) -> int:
        """Returns the handle of the stream that the queue uses. It is above 2, since 1 and 2 stand
        for default streams.
        """

    def wait_stream(self, queue: Any, stream: int) -> int:
        """Makes later submissions to the queue run after the present work of `stream`. Returns 0 or
        -errno.
        """

    def order_stream(self, queue: Any, stream: int) -> int:
        """Makes later work of `stream` run after the present submissions to the queue. Returns 0 or
        -errno.
        """


class TakesThreads(Protocol):
    """A backend whose class honours `Settings.threads`. For other backends core refuses `threads=`
    of `open`.

    >>> abilities.members(abilities.TakesThreads)
    ['takes_threads']
    """

    takes_threads: bool
    """True; False means that the backend lacks the ability."""


class KeepsTime(Protocol):
    """A backend with a clock of its own, such as a simulated device.

    >>> abilities.members(abilities.KeepsTime)
    ['clock']
    """

    def clock(self) -> float:
        """Returns seconds for timing the backend's work. The time advances when a wait ends."""


class KeepsLanes(Protocol):
    """A backend with a simulated clock, whose time passes only when all threads that use it wait.
    Devices that share a clock return the same object as `lanes`.

    >>> abilities.members(abilities.KeepsLanes)
    ['lanes']
    """

    @property
    def lanes(self) -> base.Lanes:
        """The backend's simulated clock. The thread of each lane tells it when the lane starts,
        begins to wait, and ends.
        """


class TellsPeer(Protocol):
    """A backend that knows how its `copy_peer` moves bytes. For other backends the bytes count as
    staged through the host.

    >>> abilities.members(abilities.TellsPeer)
    ['peer']
    """

    def peer(self, other: Any) -> str:
        """Returns how bytes arrive from another open backend of the same `info.backend`. "direct"
        means that no byte passes through the host, "staged" that all bytes do.
        """


class BringsKernels(Protocol):
    """A backend with manifest kernels of its own, such as a plug-in.

    If the backend has a `DeviceInfo.language`, codegen still generates the kernels that it can, and
    `load` gets their code as `spec.made`.

    A backend without this ability has codegen's kernels if it has a `DeviceInfo.language`.
    Otherwise it has the entries of shaders/manifest.json under `info.backend`.

    >>> abilities.members(abilities.BringsKernels)
    ['kernels']
    """

    @property
    def kernels(self) -> Mapping[str, Any]:
        """The kernels by manifest name, each with the value that `load` gets as `spec.manifest`."""


class HandsOver(Protocol):
    """A backend that sends a long submission to its device in parts.

    `hand_over` sends later parts and does not wait for the end of the submission.

    >>> abilities.members(abilities.HandsOver)
    ['hand_over']
    """

    def hand_over(self, queue: Any, value: int, timeout_ns: int) -> int:
        """Sends more parts of a submission that the device has only in part (BEGUN in base.py).
        Returns 0 when all parts are sent, -EAGAIN if this call sent a part but not the last one,
        -ETIMEDOUT if it sent none.
        """


class MakesRoom(Protocol):
    """A backend whose full queues return -EAGAIN at once, and which can wait for room in
    a queue.

    >>> abilities.members(abilities.MakesRoom)
    ['room']
    """

    def room(self, queue: Any, timeout_ns: int) -> int:
        """Waits until the queue accepts submissions again. Returns 0 or -ETIMEDOUT."""


CALLED_BY_C = ("launch", "run", "submit", "submitted", "reached", "wait")


class IsNative(Protocol):
    """A backend whose functions C calls directly, through a queue's handle: struct sp_functions of
    sp_queue.h.

    >>> abilities.members(abilities.IsNative)
    ['_native']
    """

    @property
    def _native(self) -> object:
        """The backend's object of class Native (native.py). Its attributes `launch`, `wait` and the
        others that CALLED_BY_C lists are C functions, not Python methods that call them.
        """


_Kind = TypeVar("_Kind")


def members(kind: type) -> list[str]:
    """Returns the names of the members of an ability.

    >>> abilities.members(abilities.KeepsLanes)
    ['lanes']
    """
    names = list(kind.__annotations__)
    for name, member in vars(kind).items():
        if isinstance(member, FunctionType | property) and not name.startswith("__"):
            names.append(name)
    return names


def ability(backend: object, kind: type[_Kind]) -> _Kind | None:
    """Returns the backend or class, typed as having this ability, or None if it lacks a member.

    >>> class Clocked:
    ...     def clock(self) -> float: ...
    >>> abilities.ability(Clocked(), abilities.KeepsTime) is not None
    True
    >>> abilities.ability(Clocked(), abilities.TellsFault) is None
    True
    """
    there = all(getattr(backend, name, None) is not None for name in members(kind))
    return cast(_Kind, backend) if there else None


class Abilities:
    """The abilities of an open backend: one attribute each, with the backend itself or None.

    >>> class Clocked:
    ...     def clock(self) -> float: ...
    >>> found = abilities.Abilities(Clocked())
    >>> found.keeps_time is not None, found.tells_fault
    (True, None)
    """

    def __init__(self, backend: object) -> None:
        self._backend = backend
        self.tells_refusal = ability(backend, TellsRefusal)
        self.tells_fault = ability(backend, TellsFault)
        self.tells_loss = ability(backend, TellsLoss)
        self.tells_error = ability(backend, TellsError)
        self.tells_failure = ability(backend, TellsFailure)
        self.exports = ability(backend, Exports)
        self.keeps_time = ability(backend, KeepsTime)
        self.keeps_lanes = ability(backend, KeepsLanes)
        self.tells_peer = ability(backend, TellsPeer)
        self.hands_over = ability(backend, HandsOver)
        self.makes_room = ability(backend, MakesRoom)
        self.is_native = ability(backend, IsNative)
        self._late: dict[type, Any] = {}

    def lets_c_call(self) -> bool:
        """Returns whether C may call the backend's functions directly. If a derived class or an
        assignment has replaced one of them, all are called through Python.
        """
        at, backend = self.is_native, self._backend
        return at is not None and all(
            getattr(backend, name) is getattr(at._native, name) for name in CALLED_BY_C
        )

    def _on_demand(self, kind: type[_Kind]) -> _Kind | None:
        # not functools.cached_property: up to Python 3.11 it computes under one lock for all
        # objects, which a forked child may find locked
        if kind not in self._late:
            self._late[kind] = ability(self._backend, kind)
        found: _Kind | None = self._late[kind]
        return found

    @property
    def shares_streams(self) -> SharesStreams | None:
        """The backend if it shares streams, otherwise None. This is determined when memory or
        streams are first shared, since the backend's property `dlpack` may have to ask a driver.
        """
        return self._on_demand(SharesStreams)

    @property
    def brings_kernels(self) -> BringsKernels | None:
        """The backend if it brings kernels, otherwise None. This is determined for the first
        kernel, since a backend may be slow to list its kernels.
        """
        return self._on_demand(BringsKernels)


def takes_threads(kind: object) -> bool:
    """Returns whether this class of backends honours `Settings.threads`.

    >>> from sparkle_drv.backends.cpu.backend import CpuBackend
    >>> abilities.takes_threads(CpuBackend)
    True
    """
    found = ability(kind, TakesThreads)
    return found is not None and found.takes_threads is True
