"""What one session has made: memory at addresses that the session sees, kernels and prepared
launches by number.

These addresses are not the device's, so they reveal nothing of other sessions. The node looks up
every address that a client sends. Two threads of a session may use a table at a time; each holds
the lock only briefly.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sparkle_drv import types
from sparkle_drv.cluster.node.accounts import Account
from sparkle_drv.cluster.node.faults import OutsideMemory
from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.device import Device
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.errors import OutOfDeviceMemory

BEGIN = 1 << 32
"""The first address, so that small numbers are invalid."""
ALIGNMENT = 64
GAP = 4096  # bytes between allocations: a small overrun reaches no other allocation


class Allocations:
    """All allocations of a session."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._buffers: dict[int, Buffer] = {}
        self._next = BEGIN
        self.nbytes = 0
        """Bytes of all allocations."""

    def __len__(self) -> int:
        return len(self._buffers)

    def alloc(self, device: Device, nbytes: int, kind: types.Memory) -> int:
        """Makes an allocation if the client's quotas allow it, and returns its address."""
        try:
            self._take(nbytes)
        except OutOfDeviceMemory:
            device._retired.drain()  # frees closed memory that work has used until now
            self._take(nbytes)
        try:
            buffer = device.buffer(nbytes, kind)
        except BaseException:
            _give(self._account, 1, nbytes)
            raise
        with self._lock:
            self.nbytes += nbytes
            address = self._next
            self._next += -(-(nbytes + GAP) // ALIGNMENT) * ALIGNMENT
            self._buffers[address] = buffer
            insort(self._starts, address)
        return address

    def free(self, address: int) -> None:
        """Frees an allocation. Raises OutsideMemory if none begins at this address."""
        with self._lock:
            buffer = self._buffers.pop(address, None)
            if buffer is None:
                raise OutsideMemory(f"free: expected the start of an allocation, got {address:#x}")
            self._starts.remove(address)
            self.nbytes -= buffer.nbytes
        device, nbytes = buffer.device, buffer.nbytes
        buffer.close()
        self._give_later(device, 1, nbytes)

    def end(self, device: Device) -> None:
        """Forgets all allocations; idempotent. The client's account gets their bytes back when no
        work of the device uses them any more, like those of `free`.
        """
        with self._lock:
            count, nbytes = len(self._buffers), self.nbytes
            self._buffers, self._starts, self.nbytes = {}, [], 0
        self._give_later(device, count, nbytes)

    def _take(self, nbytes: int) -> None:
        self._account.take("buffers")
        try:
            self._account.take("memory", nbytes)
        except BaseException:
            self._account.give("buffers")
            raise

    def _give_later(self, device: Device, count: int, nbytes: int) -> None:
        retired = device._retired
        retired.retire(retired.own(self, partial(_give, self._account, count, nbytes)))

    def at(self, what: str, address: int, claimed: int | None) -> Buffer | None:
        """Returns the memory from `address` to the end of its allocation, at most `claimed` bytes;
        None for a null pointer. Raises OutsideMemory for an address outside the session's memory.
        """
        if address == 0:
            return None
        buffer, offset = self._find(what, address)
        rest = buffer.nbytes - offset
        return buffer.view(offset, rest if claimed is None else min(claimed, rest))

    def span(self, what: str, address: int, nbytes: int) -> Buffer:
        """Returns exactly `nbytes` of memory from `address`. Raises OutsideMemory, whose message
        names `what`, if the session does not have all of this memory.
        """
        buffer, offset = self._find(what, address)
        if nbytes > buffer.nbytes - offset:
            raise OutsideMemory(
                f"{what}: expected at most {buffer.nbytes - offset} bytes at {address:#x}, "
                f"got {nbytes}"
            )
        return buffer.view(offset, nbytes)

    def _find(self, what: str, address: int) -> tuple[Buffer, int]:
        with self._lock:
            index = bisect_right(self._starts, address) - 1
            start = self._starts[index] if index >= 0 else 0
            buffer = self._buffers.get(start)
        if buffer is None or address - start > buffer.nbytes:
            raise OutsideMemory(f"{what}: expected memory of this session, got {address:#x}")
        return buffer, address - start


def _give(account: Account, count: int, nbytes: int) -> None:
    account.give("buffers", count)
    account.give("memory", nbytes)


@dataclass
class Launch:
    """A prepared launch: a kernel and its arguments. `runs` has what core's `prepare` returned for
    each queue, by the queue's number.
    """

    kernel: Kernel
    args: tuple[Any, ...]
    groups: tuple[int, int, int]
    group_size: tuple[int, int, int]
    shared: int
    runs: dict[int, Callable[[], int]] = field(default_factory=dict)


class Tables:
    """All objects that a session has made, except queues."""

    def __init__(self, account: Account) -> None:
        self.quotas = account.quotas
        self.memory = Allocations(account)
        self.kernels: dict[int, Kernel] = {}
        self.prepared: dict[int, Launch] = {}
        self._next_kernel = 1

    def add_kernel(self, make: Callable[[], Kernel]) -> tuple[int, Kernel]:
        self.quotas.check("kernels", len(self.kernels))
        kernel = make()
        number, self._next_kernel = self._next_kernel, self._next_kernel + 1
        self.kernels[number] = kernel
        return number, kernel

    def kernel(self, number: int) -> Kernel:
        found = self.kernels.get(number)
        if found is None:
            raise ValueError(f"kernel: expected a kernel of this session, got {number}")
        return found

    def unload(self, number: int) -> None:
        self.kernel(number).close()
        del self.kernels[number]

    def counts(self) -> dict[str, int]:
        return {
            "buffers": len(self.memory), "memory": self.memory.nbytes,
            "kernels": len(self.kernels), "prepared": len(self.prepared),
        }  # fmt: skip
