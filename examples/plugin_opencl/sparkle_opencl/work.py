"""One submission: commands as OpenCL has them, each with an event that tells how far it is."""

from __future__ import annotations

import errno
import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from sparkle_drv import plugin
from sparkle_opencl import memory
from sparkle_opencl.trouble import errno_of, words_of

_COMPLETE = int(cl.command_execution_status.COMPLETE)
_RUNNING = int(cl.command_execution_status.RUNNING)


class Work:
    """What `plugin.Queues` wants of a submission. Not locked: its queue asks from one thread at a
    time."""

    def __init__(self) -> None:
        self._events: list[tuple[int, Any]] = []  # (index of the command, event), in order
        self._stamps: list[tuple[int, Any]] = []  # (address, marker)
        self._kept: list[Any] = []
        self._at = 0  # events before this one have ended
        self._since = time.monotonic()  # when the one at `_at` may have begun
        self._ended: int | None = None
        self._words = ""

    # Giving it to the device

    def start(
        self,
        queue: Any,
        context: Any,
        kernels: plugin.Kernels,
        commands: Sequence[plugin.Command],
        awaited: Sequence[Work],
    ) -> None:
        """Enqueues everything; what the device refuses in the middle of it is how it fails."""
        try:
            if awaited:
                events = [work.last for work in awaited]
                self._events.append((0, cl.enqueue_barrier(queue, wait_for=events)))
            for index, command in enumerate(commands):
                self._enqueue(queue, context, kernels, index, command)
            if not self._events:
                self._events.append((0, cl.enqueue_marker(queue)))
            queue.flush()
        except cl.Error as error:
            if not self._events:
                raise plugin.Failed(errno_of(error.code), str(error)) from None
            self._fail(errno_of(error.code), str(error))

    def _fail(self, code: int, words: str) -> None:
        self._ended, self._words = -code, words

    @property
    def last(self) -> Any:
        """The event after which all of it has ended."""
        return self._events[-1][1]

    def _enqueue(
        self,
        queue: Any,
        context: Any,
        kernels: plugin.Kernels,
        index: int,
        command: plugin.Command,
    ) -> None:
        event: Any = None
        match command:
            case plugin.Dispatch():
                entry = kernels.find(command.kernel)
                if entry is not None and min(command.groups):
                    event = entry.own.enqueue(queue, command)
            case plugin.Copy() if command.nbytes:
                event = self._copy(queue, context, index, command)
            case plugin.Fill() if command.nbytes:
                pattern = np.frombuffer(command.pattern, np.uint8)
                target = memory.pointer(command.dst, command.nbytes)
                event = cl.enqueue_svm_memfill(queue, target, pattern, command.nbytes)
            case plugin.Timestamp():
                event = cl.enqueue_marker(queue)
                self._stamps.append((command.slot, event))
        if event is not None:
            self._events.append((index, event))

    def _copy(self, queue: Any, context: Any, index: int, command: plugin.Copy) -> Any:
        dst, src, nbytes = command.dst, command.src, command.nbytes
        if abs(dst - src) < nbytes:  # OpenCL refuses copies that overlap
            between = cl.SVMAllocation(context, nbytes, 128, cl.svm_mem_flags.READ_WRITE)
            self._kept.append(between)
            self._events.append((index, _copied(queue, between.svm_ptr, src, nbytes)))
            src = between.svm_ptr
        return _copied(queue, dst, src, nbytes)

    # How far it is

    def ended(self) -> int | None:
        if self._ended is None or self._at < len(self._events):
            self._look()
        return self._ended if self._at == len(self._events) else None

    def _look(self) -> None:
        while self._at < len(self._events):
            status = self._events[self._at][1].command_execution_status
            if status > _COMPLETE:
                return
            if status < _COMPLETE and self._ended is None:
                self._fail(errno_of(status), words_of(status))
                if self._ended == -errno.ENODEV:
                    self._at = len(self._events) - 1  # the rest may never end
            self._at += 1
            self._since = time.monotonic()
        if self._ended is None:
            for slot, marker in self._stamps:
                memory.move(slot, memory.address_of(memoryview(_ns(marker))), 8)
            self._ended = 0
        self._kept.clear()

    def running(self) -> tuple[int, float]:
        self._look()
        if self._at == len(self._events):
            return -1, 0.0
        index, event = self._events[self._at]
        begun = self._at > 0 or event.command_execution_status <= _RUNNING
        return (index, time.monotonic() - self._since) if begun else (-1, 0.0)

    def times(self) -> tuple[int, int] | None:
        first, last = self._events[0][1], self._events[-1][1]
        try:
            return first.profile.start, last.profile.end
        except cl.Error:
            return None

    def words(self) -> str:
        return self._words


def _copied(queue: Any, dst: int, src: int, nbytes: int) -> Any:
    target, origin = memory.pointer(dst, nbytes), memory.pointer(src, nbytes)
    return cl.enqueue_copy(queue, target, origin, byte_count=nbytes, is_blocking=False)


def _ns(marker: Any) -> bytes:
    return struct.pack("=Q", marker.profile.end)
