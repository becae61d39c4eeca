"""Optional abilities of a backend beside the protocol of base.py, one Protocol each.

A backend has an ability if it has its members; it inherits and registers nothing. A member that is
None counts as absent, so that a derived class can remove an ability with `room = None`. What core
does without an ability is not here. core looks once, when it opens a device (`Abilities`). Queues,
handles and records are those of `Backend`.
"""

# mypy: disable-error-code="type-abstract"
# (`ability` takes Protocols, which mypy otherwise keeps out of a parameter of type[...].)

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import FunctionType
from typing import Any, Protocol, TypeVar, cast

from sparkle_drv.backends import base
from sparkle_drv.backends.base import Allocation


class TellsRefusal(Protocol):
    """It can explain a refused dispatch beyond an errno.

    >>> abilities.members(abilities.TellsRefusal)
    ['refusal']
    """

    def refusal(self, record: bytes, rc: int) -> str:
        """Why `check` refused this record; "" if unknown."""


class TellsFault(Protocol):
    """It can explain a failed submission beyond an errno.

    >>> abilities.members(abilities.TellsFault)
    ['fault']
    """

    def fault(self, queue: Any, value: int) -> str:
        """How the submission failed; "" if unknown."""


class TellsLoss(Protocol):
    """It knows why a device was lost.

    >>> abilities.members(abilities.TellsLoss)
    ['lost']
    """

    def lost(self) -> str:
        """Why the device is lost; "" while it is not."""


class TellsError(Protocol):
    """It keeps its driver's messages about each thread's calls.

    >>> abilities.members(abilities.TellsError)
    ['said']
    """

    def said(self) -> str:
        """How this thread's last call that returned -errno failed; "" if unknown."""


class TellsFailure(Protocol):
    """It can return how a value ended without marking the failure as reported; `wait` marks it.

    >>> abilities.members(abilities.TellsFailure)
    ['failure']
    """

    def failure(self, queue: Any, value: int) -> int:
        """0 or the -errno of a value that has been reached."""


class Exports(Protocol):
    """It can share its own memory with other processes.

    >>> abilities.members(abilities.Exports)
    ['alloc_exportable']
    """

    def alloc_exportable(self, nbytes: int) -> Allocation:
        """As `alloc` of Memory.DEVICE; `export` takes its handle. Raises NotImplementedError."""


class SharesStreams(Protocol):
    """Other libraries of the process use its memory in place, and its queues as streams.

    A `stream` is a handle, or a number as in DLPack and the CUDA array interface: 1 is the legacy
    default stream, 2 the calling thread's default stream. The host never waits.

    >>> abilities.members(abilities.SharesStreams)
    ['dlpack', 'owns', 'adopt', 'share_stream', 'wait_stream', 'order_stream']
    """

    @property
    def dlpack(self) -> tuple[int, int]:
        """(device type, device id) of DLPack's DLDevice: (2, 0) is the first CUDA device."""

    def owns(self, address: int) -> bool:
        """Is this memory on the device, whoever allocated it?"""

    def adopt(self, address: int, nbytes: int, owner: object) -> Allocation:
        """An Allocation of such memory, in place; `owner` is kept alive until `free`.

        Raises ValueError if it is not memory of this device.
        """

    def share_stream(self, queue: Any) -> int:
        """The handle, above 2, of the stream that the queue uses."""

    def wait_stream(self, queue: Any, stream: int) -> int:
        """Later submissions to the queue run after the present work of `stream`. Returns 0 or
        -errno."""

    def order_stream(self, queue: Any, stream: int) -> int:
        """Later work of `stream` runs after the present submissions to the queue. Returns 0 or
        -errno."""


class TakesThreads(Protocol):
    """Its class honours `Settings.threads`. Otherwise core refuses `threads=` of `open`.

    >>> abilities.members(abilities.TakesThreads)
    ['takes_threads']
    """

    takes_threads: bool
    """True; False means that it lacks the ability."""


class KeepsTime(Protocol):
    """It has its own clock, such as a simulated device.

    >>> abilities.members(abilities.KeepsTime)
    ['clock']
    """

    def clock(self) -> float:
        """Seconds for timing its work. Time passes when a wait ends."""


class KeepsLanes(Protocol):
    """Its time passes when all its threads wait. Devices with one clock share one `lanes`.

    >>> abilities.members(abilities.KeepsLanes)
    ['lanes']
    """

    @property
    def lanes(self) -> base.Lanes:
        """The object that threads of a program tell when they run and wait."""


class TellsPeer(Protocol):
    """It knows how its `copy_peer` moves bytes. Otherwise they count as staged.

    >>> abilities.members(abilities.TellsPeer)
    ['peer']
    """

    def peer(self, other: Any) -> str:
        """For another open backend of the same `info.backend`: "direct" if no byte of a copy from
        there passes through the host, "staged" if all do.
        """


class BringsKernels(Protocol):
    """It has manifest kernels of its own, as a plug-in does. If it has a `DeviceInfo.language`, its
    `load` still gets `spec.made` for kernels that codegen can generate.

    Otherwise it has codegen's kernels if it has a `DeviceInfo.language`, else the entries of
    shaders/manifest.json under `info.backend`.

    >>> abilities.members(abilities.BringsKernels)
    ['kernels']
    """

    @property
    def kernels(self) -> Mapping[str, Any]:
        """By manifest name: the value that its `load` gets as `spec.manifest`."""


class HandsOver(Protocol):
    """It takes a long submission in parts, and sends the rest without waiting for the end.

    >>> abilities.members(abilities.HandsOver)
    ['hand_over']
    """

    def hand_over(self, queue: Any, value: int, timeout_ns: int) -> int:
        """See BEGUN of base.py: 0 if all is sent, -EAGAIN if a part was, -ETIMEDOUT if none was."""


class MakesRoom(Protocol):
    """Its full queues return -EAGAIN at once and can be waited for.

    >>> abilities.members(abilities.MakesRoom)
    ['room']
    """

    def room(self, queue: Any, timeout_ns: int) -> int:
        """Waits until the queue takes submissions again. Returns 0 or -ETIMEDOUT."""


CALLED_BY_C = ("launch", "run", "submit", "submitted", "reached", "wait")


class IsNative(Protocol):
    """C reaches its functions through the handle of a queue: struct sp_functions of sp_queue.h.

    >>> abilities.members(abilities.IsNative)
    ['_native']
    """

    @property
    def _native(self) -> object:
        """The object with the functions of CALLED_BY_C for Python."""


_Kind = TypeVar("_Kind")


def members(kind: type) -> list[str]:
    """The names that make up an ability.

    >>> abilities.members(abilities.KeepsLanes)
    ['lanes']
    """
    found = list(kind.__annotations__)
    for name, member in vars(kind).items():
        if isinstance(member, FunctionType | property) and not name.startswith("__"):
            found.append(name)
    return found


def ability(backend: object, kind: type[_Kind]) -> _Kind | None:
    """A backend or its class, typed as having this ability; None if it lacks a member.

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
    """The abilities of an open backend: itself under each one that it has, None under others.

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

    def lets_c_call(self) -> bool:
        """May C call its functions directly? Not if a derived class or an assignment has replaced
        one of them: then all are called through Python.
        """
        at, backend = self.is_native, self._backend
        return at is not None and all(
            getattr(backend, name) is getattr(at._native, name) for name in CALLED_BY_C
        )

    @cached_property
    def shares_streams(self) -> SharesStreams | None:
        """Looked up when memory or streams are first shared: `dlpack` may have to ask a driver."""
        return ability(self._backend, SharesStreams)

    @cached_property
    def brings_kernels(self) -> BringsKernels | None:
        """Looked up for the first kernel: a backend may be slow to list its own."""
        return ability(self._backend, BringsKernels)


def takes_threads(kind: object) -> bool:
    """Does this class of backends honour `Settings.threads`?

    >>> from sparkle_drv.backends.cpu.backend import CpuBackend
    >>> abilities.takes_threads(CpuBackend)
    True
    """
    found = ability(kind, TakesThreads)
    return found is not None and found.takes_threads is True
