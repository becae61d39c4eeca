"""What a backend may be able to do beside the protocol of base.py: each ability a Protocol.

A backend has an ability by having its members; it inherits nothing and registers nothing. A member
that is None counts as absent: a class that derives from another backend takes an ability away with
`room = None`. Not here: what core does without an ability. core asks once, as it opens a device
(`Abilities`). Queues, handles and records are those of `Backend`.
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
    """It knows more of a refused dispatch than an errno."""

    def refusal(self, record: bytes, rc: int) -> str:
        """Why `check` did not take this record; "": nothing is known."""


class TellsFault(Protocol):
    """It knows more of a failed submission than an errno."""

    def fault(self, queue: Any, value: int) -> str:
        """How the submission failed; "": nothing is known."""


class TellsLoss(Protocol):
    """It knows how a device is lost."""

    def lost(self) -> str:
        """Why the device is gone; "" while it is not."""


class TellsError(Protocol):
    """It keeps what its driver says of each thread's calls."""

    def said(self) -> str:
        """How the last call of this thread failed that returned -errno; "": nothing is known."""


class TellsFailure(Protocol):
    """It can say how a value ended so that nobody counts as told of it; `wait` tells."""

    def failure(self, queue: Any, value: int) -> int:
        """0 or the -errno with which a value ended that has been reached."""


class Exports(Protocol):
    """It can give its own memory to other processes."""

    def alloc_exportable(self, nbytes: int) -> Allocation:
        """As `alloc` of Memory.DEVICE; `export` takes its handle. Raises NotImplementedError."""


class SharesStreams(Protocol):
    """Other libraries of the process use its memory in place and know its queues as streams.

    A `stream` is a handle, or as DLPack and the CUDA array interface have it 1, the default stream
    of the old kind, and 2, the default stream of the calling thread. The host never waits.
    """

    @property
    def dlpack(self) -> tuple[int, int]:
        """(device type, device id) of DLPack's DLDevice: (2, 0) is the first CUDA device."""

    def owns(self, address: int) -> bool:
        """Is this memory of the device, by whomever it was allocated?"""

    def adopt(self, address: int, nbytes: int, owner: object) -> Allocation:
        """Such memory, in place; `owner` is kept alive until `free`.

        ValueError: it is not memory of this device.
        """

    def share_stream(self, queue: Any) -> int:
        """The handle, above 2, of the stream that the queue's work is in."""

    def wait_stream(self, queue: Any, stream: int) -> int:
        """What is submitted to the queue from now on runs after what `stream` has been given: 0 or
        -errno."""

    def order_stream(self, queue: Any, stream: int) -> int:
        """What `stream` is given from now on runs after what was submitted to the queue: 0 or
        -errno."""


class TakesThreads(Protocol):
    """Its class honours `Settings.threads`. Without this core refuses `threads=` of `open`."""

    takes_threads: bool
    """True; False: it has not this ability."""


class KeepsTime(Protocol):
    """Its time is not the machine's, as that of a simulated device."""

    def clock(self) -> float:
        """Seconds by which its work is to be timed. A wait that ends lets them pass."""


class KeepsLanes(Protocol):
    """Its time passes when all threads that use it wait. Devices of one clock have one `lanes`."""

    @property
    def lanes(self) -> base.Lanes:
        """Whom the threads of a program tell when they run and wait."""


class TellsPeer(Protocol):
    """It knows how its `copy_peer` carries bytes. Without this they count as staged."""

    def peer(self, other: Any) -> str:
        """Of another open backend whose `info.backend` is the same: "direct", no byte of a copy
        from there passes the host's hands; "staged", all do.
        """


class BringsKernels(Protocol):
    """It brings manifest kernels of its own, as a plug-in does. Of those that codegen knows its
    `load` still gets `spec.made`, if it has a `DeviceInfo.language`.

    Without this the kernels of codegen count if it has a `DeviceInfo.language`, else the entries of
    shaders/manifest.json under the name `info.backend`.
    """

    @property
    def kernels(self) -> Mapping[str, Any]:
        """From manifest names to what its `load` wants as `spec.manifest`."""


class HandsOver(Protocol):
    """It takes a long submission in parts and sends the rest without a wait for the end."""

    def hand_over(self, queue: Any, value: int, timeout_ns: int) -> int:
        """BEGUN of base.py: 0 all is sent, -EAGAIN some was, -ETIMEDOUT none was."""


class MakesRoom(Protocol):
    """Its full queues return -EAGAIN at once and can be waited for."""

    def room(self, queue: Any, timeout_ns: int) -> int:
        """Wait until the queue takes submissions again: 0 or -ETIMEDOUT."""


CALLED_BY_C = ("launch", "run", "submit", "submitted", "reached", "wait")


class IsNative(Protocol):
    """C reaches its functions through the handle of a queue: struct sp_functions of sp_queue.h."""

    @property
    def _native(self) -> object:
        """Has those of CALLED_BY_C as Python calls them."""


_Kind = TypeVar("_Kind")


def members(kind: type) -> list[str]:
    """The names that make up an ability."""
    found = list(kind.__annotations__)
    for name, member in vars(kind).items():
        if isinstance(member, FunctionType | property) and not name.startswith("__"):
            found.append(name)
    return found


def ability(backend: object, kind: type[_Kind]) -> _Kind | None:
    """A backend, or its class, as a thing with this ability; None: it has not all the members."""
    there = all(getattr(backend, name, None) is not None for name in members(kind))
    return cast(_Kind, backend) if there else None


class Abilities:
    """What an open backend can do: itself under each ability that it has, None under others."""

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
        """May C call its functions by itself? Not where a class that derives from the backend has
        changed one, or somebody has set another: then all of them are called through Python.
        """
        at, backend = self.is_native, self._backend
        return at is not None and all(
            getattr(backend, name) is getattr(at._native, name) for name in CALLED_BY_C
        )

    @cached_property
    def shares_streams(self) -> SharesStreams | None:
        """Asked when memory or streams are shared first: `dlpack` may have to ask a driver."""
        return ability(self._backend, SharesStreams)

    @cached_property
    def brings_kernels(self) -> BringsKernels | None:
        """Asked when the first kernel is: a backend may take long to list its own."""
        return ability(self._backend, BringsKernels)


def takes_threads(kind: object) -> bool:
    """Does this class of backends honour `Settings.threads`?"""
    found = ability(kind, TakesThreads)
    return found is not None and found.takes_threads is True
