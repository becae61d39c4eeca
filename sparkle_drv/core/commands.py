"""Commands: a list of work that is recorded once and can be submitted many times.

Each method appends one immutable command and returns the list. The first submission encodes the
list for its device; later submissions send the same bytes in one native call. `patch` rewrites the
arguments of a dispatch in place. Earlier submissions have their own copy, so a running kernel never
sees a change.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkle_drv import _hot
from sparkle_drv._hot import CommandsBase, Prepared
from sparkle_drv._native import ffi
from sparkle_drv.core.abi import records
from sparkle_drv.core.buffer import Buffer, buffer_of
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.launch_errors import packed, refused_by_backend
from sparkle_drv.core.timestamp import Timestamp
from sparkle_drv.core.whole_number import within

if TYPE_CHECKING:
    from sparkle_drv.core.array import Array
    from sparkle_drv.core.device import Device
    from sparkle_drv.core.queue import Queue


class CopyCommand(NamedTuple):
    """The record of one call of `Commands.copy`."""

    dst: Buffer
    src: Buffer


class FillCommand(NamedTuple):
    """The record of one call of `Commands.fill`."""

    dst: Buffer
    pattern: int
    pattern_nbytes: int


class DispatchCommand(NamedTuple):
    """The record of one call of `Commands.dispatch`, with the arguments of its last `patch`."""

    kernel: Kernel
    args: tuple[Any, ...]
    groups: Any
    group_size: Any
    shared: int


class BarrierCommand(NamedTuple):
    """The record of one call of `Commands.barrier`."""


class WaitCommand(NamedTuple):
    """The record of one call of `Commands.wait`."""

    fence: Fence


class TimestampCommand(NamedTuple):
    """The record of one call of `Commands.timestamp`."""

    timestamp: Timestamp


Command = (
    CopyCommand | FillCommand | DispatchCommand | BarrierCommand | WaitCommand | TimestampCommand
)


class Commands(CommandsBase):
    """A list of work; with `overlap=True` a device may run neighbouring commands at the same time.

    With `overlap=True` the caller records a `barrier()` where order matters. `commands` holds the
    commands recorded so far. A list has no lock: record and patch it from one thread at a time. Any
    thread may submit it.

    >>> x, y = dev.buffer(64), dev.buffer(64)
    >>> k = dev.kernel("fill_f32")
    >>> work = sp.Commands().dispatch(k, x, 2.0, 16, groups=1).copy(y, x)
    >>> dev.default_queue.submit(work).wait().done
    True
    >>> float(y.array(np.float32, (16,)).numpy()[-1])
    2.0
    """

    def __init__(self, overlap: bool = False) -> None:
        self.overlap = overlap
        self.commands: list[Command] = []
        self._waits: list[Fence] = []
        self._device: Device | None = None
        self._encoded = bytearray()
        self._ready: tuple[Any, int, int] = (None, 0, -1)  # the last result of _encode
        self._offsets: list[int] = []
        self._binding = threading.RLock()

    def __len__(self) -> int:
        return len(self.commands)

    def __repr__(self) -> str:
        lines = "".join(f"\n  {i}: {c!r}" for i, c in enumerate(self.commands))
        return f"<Commands of {len(self.commands)}{lines}>"

    def _append(self, command: Command) -> Commands:
        self.commands.append(command)
        self._device = self._bound = None
        return self

    def copy(self, dst: Buffer | Array, src: Buffer | Array) -> Commands:
        """Appends a copy of all bytes of `src` to `dst`: Buffers or Arrays, which may overlap.

        Raises TypeError unless both are Buffers or Arrays. Raises ValueError if the sizes differ,
        `dst` is read-only, or a buffer is closed.
        """
        a, b = buffer_of("dst", dst), buffer_of("src", src)
        if a.nbytes != b.nbytes:
            raise ValueError(
                f"copy: dst has {a.nbytes} bytes, src has {b.nbytes}; use views of the same size"
            )
        if a.readonly:
            raise ValueError("copy: expected a writable dst, got a read-only buffer")
        return self._append(CopyCommand(a, b))

    def fill(self, dst: Buffer | Array, pattern: int, pattern_nbytes: int = 4) -> Commands:
        """Appends a fill of `dst`, a Buffer or Array, with a repeated unsigned integer.

        The integer has `pattern_nbytes` bytes: 1, 2 or 4. Raises TypeError for an argument of a
        wrong type. Raises ValueError if `pattern_nbytes` is another number or does not divide the
        size of `dst`, or if the pattern needs more bytes. Raises ValueError if `dst` is read-only
        or closed.
        """
        a = buffer_of("dst", dst)
        width = within("fill: pattern_nbytes", pattern_nbytes, 1, 4)
        if width == 3 or a.nbytes % width:
            raise ValueError(
                f"fill: pattern_nbytes: expected 1, 2 or 4 that divides {a.nbytes}, got {width}"
            )
        pattern = within("fill: pattern", pattern, 0, (1 << (8 * width)) - 1)
        if a.readonly:
            raise ValueError("fill: expected a writable dst, got a read-only buffer")
        return self._append(FillCommand(a, pattern, width))

    def dispatch(
        self,
        kernel: Kernel,
        *args: Any,
        groups: Any = None,
        group_size: Any = None,
        shared: int = 0,
    ) -> Commands:
        """Appends a launch of `kernel` with the arguments of `Queue.launch`, except numpy arrays.

        This method checks all arguments now, and raises the errors of `Queue.launch`.
        """
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel: expected a Kernel, got {type(kernel).__name__}")
        args, shape = _hot.plain(kernel, args, groups, group_size, shared)
        command = DispatchCommand(kernel, args, *shape)
        _record(kernel.device, command)
        return self._append(command)

    def barrier(self) -> Commands:
        """Appends a barrier: later commands see the results of earlier commands.

        Only a list with `overlap=True` needs barriers.
        """
        return self._append(BarrierCommand())

    def wait(self, fence: Fence) -> Commands:
        """Appends a wait: later commands wait for a fence of another queue of the same device.

        Raises TypeError if `fence` is not a Fence.
        """
        if not isinstance(fence, Fence):
            raise TypeError(f"wait: expected a Fence, got {type(fence).__name__}")
        self._waits.append(fence)
        return self._append(WaitCommand(fence))

    def timestamp(self, timestamp: Timestamp) -> Commands:
        """Appends a store of the device clock into `timestamp` (made by `Device.timestamp`).

        Raises TypeError if `timestamp` is not a Timestamp, ValueError if it is closed.
        """
        if not isinstance(timestamp, Timestamp):
            raise TypeError(f"timestamp: expected a Timestamp, got {type(timestamp).__name__}")
        timestamp.buffer._open()
        return self._append(TimestampCommand(timestamp))

    def patch(self, index: int, *args: Any) -> Commands:
        """Gives the dispatch at `index` new arguments. Earlier submissions keep the old arguments.

        Raises ValueError if the command at `index` is not a dispatch, and the errors of `dispatch`.
        """
        try:
            old = self.commands[index]
        except (IndexError, TypeError):
            raise ValueError(
                f"patch: expected the index of one of {len(self.commands)} commands, got {index!r}"
            ) from None
        if not isinstance(old, DispatchCommand):
            raise ValueError(
                f"patch: expected a DispatchCommand at index {index}, got a {type(old).__name__}"
            )
        kernel = old.kernel
        args, _ = _hot.plain(kernel, args, None, None, 0)
        new = old._replace(args=args)
        record = _record(kernel.device, new)
        self.commands[index] = new
        if self._device is not None:
            at = self._offsets[index]
            self._encoded[at : at + len(record)] = record
        return self

    def _bind(self, queue: Queue, epoch: int) -> tuple[Any, int, int]:
        """Returns this list as arguments for the backend's `submit`.

        If native code submits to `queue`, it keeps these arguments, and later submissions of the
        list need no Python. They see the changes of `patch`, which rewrites the same bytes.
        """
        queue._device._check_process()  # a forked child may find the lock held for ever
        with self._binding:
            ready = self._encode(queue._device, epoch)
            if queue._in_c and not self._waits:
                submission = ffi.new("struct sp_submission *", (queue._handle, *ready))
                bound = Prepared()
                bound.take(
                    (queue._handle, submission, ready), int(ffi.cast("uintptr_t", submission))
                )
                self._bound = bound
            return ready

    def _encode(self, device: Device, epoch: int | None = None) -> tuple[Any, int, int]:
        """Returns (address of the records, size in bytes, epoch).

        The list is encoded again only if it has changed or the epoch has advanced.
        """
        if epoch is None:
            # read first, so that a close during the checks below makes it stale
            epoch = device._epoch
        if self._device is not device or self._ready[2] != epoch:
            encoded, offsets = bytearray(), []
            for command in self.commands:
                offsets.append(len(encoded))
                encoded += _encode(device, command)
            self._encoded, self._offsets = encoded, offsets
            view = ffi.from_buffer(encoded) if encoded else ffi.NULL
            self._ready = (view, len(encoded), epoch)
            self._device = device
        return self._ready


def _address(device: Device, what: str, buffer: Buffer) -> int:
    device._check_own(f"{what}: the buffer", buffer.device)
    buffer._open()
    return buffer._address


def _record(device: Device, dispatch: DispatchCommand) -> bytes:
    kernel, args = dispatch.kernel, dispatch.args
    shape = (dispatch.groups, dispatch.group_size, dispatch.shared)
    record = packed(device, kernel, args, shape)
    rc = device._backend.check(record, len(record))
    if rc:
        refused_by_backend(device, kernel, args, shape, record, rc)
    return record


def _encode(device: Device, command: Command) -> bytes:
    match command:
        case DispatchCommand():
            return _record(device, command)
        case CopyCommand(dst, src):
            return records.copy(
                _address(device, "dst", dst), _address(device, "src", src), dst.nbytes
            )
        case FillCommand(dst, pattern, width):
            return records.fill(_address(device, "dst", dst), dst.nbytes, pattern, width)
        case BarrierCommand():
            return records.barrier()
        case WaitCommand(fence):
            queue = fence.queue
            device._check_own("wait: the fence", queue._device)
            return records.wait(device._backend.queue_pointer(queue._handle), fence.value)
        case TimestampCommand(timestamp):
            return records.timestamp(_address(device, "timestamp", timestamp.buffer))
