"""Queue: takes launches, command lists and copies, and gives each a value on its timeline.

The lock that orders submissions is in native code; nothing here needs another. `launch` and
`prepare` are the hot paths: they do what a healthy launch needs and leave the search for reasons to
core/launch_errors.py.
"""

from __future__ import annotations

import errno
import operator
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from sparkle_drv import _hot
from sparkle_drv._hot import PointerBase, Prepared, QueueBase
from sparkle_drv._native import lib
from sparkle_drv.backends.base import BEGUN, Backend
from sparkle_drv.core import interop
from sparkle_drv.core.abi.elements import BORROWED
from sparkle_drv.core.array import Array, check_fixed, host_array
from sparkle_drv.core.buffer import Buffer, buffer_of
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.cross_queue_waits import Waited, note
from sparkle_drv.core.describe import describe
from sparkle_drv.core.fence import Fence, timeout_ns
from sparkle_drv.core.host_pointer import HostPointer, Pointer
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.launch_errors import (
    WORDS,
    Shape,
    check_told,
    packed,
    refuse,
    refused_by_backend,
)
from sparkle_drv.core.retire import BRIEFLY_S, SLICE_NS
from sparkle_drv.errors import DeviceLost, FenceTimeout

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device

TIMEOUT_S = 30.0  # the default of Queue.timeout_s


class Queue(QueueBase, Closing):
    """Made by `Device.queue`. Any thread may submit; values follow the order of submission.

    `timing`: are device times kept? Submitting to a closed queue, or to a queue of a closed device,
    raises DeviceLost.
    """

    __slots__ = (
        "__weakref__", "_backend", "_finalizer", "_handle", "_in_c", "_timeout_s", "_waits",
        "timing",
    )  # fmt: skip
    BRIEFLY = (BRIEFLY_S,)
    timing: bool
    _backend: Backend
    _finalizer: Any
    _handle: Any
    _in_c: bool  # does C call the backend's functions by itself?
    _timeout_s: float
    _waits: list[Waited]

    if TYPE_CHECKING:  # QueueBase has these, and knows no Device, Kernel or Fence
        _device: Device

        def launch(
            self,
            kernel: Kernel,
            /,
            *args: Any,
            groups: Any = None,
            group_size: Any = None,
            shared: int = 0,
        ) -> Fence: ...

        def submit(self, commands: Commands) -> Fence: ...

    def __new__(cls, device: Device, timing: bool) -> Queue:
        backend, retired = device._backend, device._retired
        handle = backend.open_queue(timing)
        in_c = device._abilities.lets_c_call()
        address = backend.queue_pointer(handle) if in_c else 0
        waits: list[Waited] = []
        pending = (*retired.pending, waits)
        self = super().__new__(cls, device, address, pending, retired.keeping(handle))
        self._backend, self._handle, self._in_c, self._waits = backend, handle, in_c, waits
        self.timing, self._timeout_s = timing, TIMEOUT_S
        retired.queues[id(handle)] = handle
        brief = timeout_ns(BRIEFLY_S)
        self._finalizer = weakref.finalize(self, retired.forget, handle, brief)
        return self

    def __repr__(self) -> str:
        return f"<Queue of {self._device.uri}{' closed' if self.closed else ''} at {self.reached}>"

    @property
    def device(self) -> Device:
        """Where its work runs."""
        return self._device

    @property
    def closed(self) -> bool:
        """Has it ended? False after a `close` that timed out."""
        return not self._finalizer.alive

    def _check_open(self) -> None:
        self._device._check_open()
        if self.closed:
            raise DeviceLost(f"{self._device.uri}: the queue is closed")

    @property
    def timeout_s(self) -> float:
        """How long a wait for work of this queue lasts when the wait itself names no limit: 30 s.

        It applies to `Fence.wait()`, to every operation and copy that waits for its result, and to
        a submission that waits for room in a full queue. Operations run on
        `Device.default_queue`, so its `timeout_s` is their limit. May be set at any time. Raises
        TypeError and ValueError as `Fence.wait`.
        """
        return self._timeout_s

    @timeout_s.setter
    def timeout_s(self, timeout_s: float) -> None:
        self._timeout_s = timeout_ns(timeout_s) / 1e9

    @property
    def submitted(self) -> int:
        """The newest value given out; 0 before the first. Never blocks."""
        return self._backend.submitted(self._handle)

    @property
    def reached(self) -> int:
        """The value up to which everything has ended. Never blocks."""
        return self._backend.reached(self._handle)

    @property
    def stream(self) -> int:
        """The handle of the stream in which its work runs, for other libraries of this process.

        ValueError where queues are no such streams: all but CUDA devices.
        """
        self._check_open()
        return int(interop.shares_of(self.device).share_stream(self._handle))

    def wait_stream(self, stream: int) -> None:
        """What is submitted here from now on runs after what a foreign `stream` has been given.

        `stream` is a handle, 1 (the default stream of the old kind) or 2 (that of this thread). The
        host does not wait. Raises ValueError (as `stream`, or not such a number), TypeError.
        """
        interop.with_stream(self, "wait_stream", stream)

    def order_stream(self, stream: int) -> None:
        """What a foreign `stream` is given from now on runs after what was submitted here.

        Otherwise as `wait_stream`.
        """
        interop.with_stream(self, "order_stream", stream)

    def _failed(self, value: int) -> bool:
        """Did a value that has been reached fail? Nobody is told of it by this, if it can be."""
        tells = self._device._abilities.tells_failure
        if tells is not None:
            return tells.failure(self._handle, value) != 0
        return self._backend.wait(self._handle, value, 0) != 0  # the question counts as telling

    def fence(self, value: int) -> Fence:
        """The fence of a value that `prepare`'s callable returned; ValueError for any other."""
        value = operator.index(value)
        if not 0 <= value <= self.submitted:
            raise ValueError(
                f"fence: value {value} was never submitted here; 0 to {self.submitted} were"
            )
        return Fence(self, value)

    def _launch_slowly(self, kernel: Any, value: int, args: tuple[Any, ...], shape: Shape) -> Fence:
        """What `launch` of native/hot/launch/launch.c leaves alone, with plain numbers: backends in
        Python, arrays that need wrapping, what a close has made stale, and every mistake. `value`
        is what native code returned, 0 if it was not asked.
        """
        device = self._device
        borrowed = [a for a in args if getattr(a, "_elements", 0) & BORROWED]

        def submit() -> int:
            with device._retired.holding(self._handle, borrowed) if borrowed else nullcontext():
                return self._backend.launch(self._handle, record, len(record), epoch)

        while True:
            for given in args:
                if isinstance(given, Pointer):
                    given._ready()
            epoch = device._renew()  # before anything is looked at: see _advance
            record: Any = _hot.pack(device, kernel, args, *shape)
            if isinstance(record, tuple):
                if record[0] == lib.SP_REFUSED_POINTER and args[record[1]] is not None:
                    words = dict(zip(WORDS, shape, strict=True))
                    return self.launch(kernel, *self._pointers(kernel, args), **words)
                refuse(device, kernel, args, shape, record)
            value = self._through(submit, value)
            if value > 0:
                return Fence(self, value)
            if value != -errno.ESTALE:
                refused_by_backend(device, kernel, args, shape, record, value)

    def _through(
        self, submit: Callable[[], int], value: int, taken: Callable[[int], None] | None = None
    ) -> int:
        """What `submit` returned, once the queue has had room for all of it. FenceTimeout when it
        has had none for `timeout_s`: then nothing was submitted.

        `value` is what it has returned already, 0 if it was not asked. `taken` is called with the
        value as soon as there is one: Ctrl-C may end what comes after.
        """
        if value in (0, -errno.ESTALE):
            value = submit()
        makes = self._device._abilities.makes_room
        deadline = time.monotonic() + self._timeout_s
        while value == -errno.EAGAIN:
            if time.monotonic() >= deadline:
                raise FenceTimeout(
                    f"{self._device.uri}: the queue is full, {self.submitted - self.reached} "
                    f"submissions are in flight and made no room within {self._timeout_s:g} s: "
                    "nothing was submitted",
                    self.describe(),
                )
            if makes is not None:
                makes.room(self._handle, SLICE_NS)
            else:  # its submit has waited, or has said at once that another queue must send first
                time.sleep(0.001)
            value = submit()
        begun = value <= -BEGUN
        value = -BEGUN - value if begun else value
        if taken is not None and value > 0:
            taken(value)
        if begun:
            self._hand_over(value)
        return value

    def _hand_over(self, value: int) -> None:
        """Hand over the rest of a submission that has begun.

        Errors and stalls surface at its fence: that wait hands over what is still left.
        """
        hands = self._device._abilities.hands_over
        more = hands.hand_over if hands is not None else self._backend.wait
        deadline = time.monotonic() + self._timeout_s
        while (rc := more(self._handle, value, SLICE_NS)) in (-errno.EAGAIN, -errno.ETIMEDOUT):
            if rc == -errno.EAGAIN:
                deadline = time.monotonic() + self._timeout_s
            elif time.monotonic() >= deadline:
                break

    def _pointers(self, kernel: Kernel, args: Sequence[Any]) -> list[Any]:
        """The arguments with numpy arrays (or DLPack exporters) as pointers."""
        return [
            self._pointer(f"{kernel.name}: argument {arg.name} ({arg.type})", given)
            if arg.is_pointer
            else given
            for arg, given in zip(kernel.args, args, strict=False)
        ]

    def _pointer(self, where: str, given: Any) -> Any:
        if isinstance(given, Pointer):
            given._ready()
        if given is None or isinstance(given, PointerBase):
            return given
        device = self._device
        try:
            foreign = interop.borrowed(self, given)
            if foreign is not None:
                return foreign
            if device.info.unified:
                return HostPointer(device, host_array("array", given))
        except (TypeError, ValueError) as error:
            if _is_callers(error):
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{where}: {error}") from error
        raise TypeError(
            f"{where}: a Buffer or Array is wanted, got {type(given).__name__}; {device.uri} "
            "cannot read host arrays, copy it with Device.array first"
        )

    def prepare(
        self,
        kernel: Kernel,
        *args: Any,
        groups: Any = None,
        group_size: Any = None,
        shared: int = 0,
    ) -> Callable[[], int]:
        """Check and pack once; the callable launches and returns the timeline value.

        `fence(value)` is the fence. Arguments as for `launch`, but no numpy arrays. The callable
        keeps its kernel and arguments alive; if one of them is closed, the next call raises. Raises
        as `launch`, then and now.
        """
        device, backend = self._device, self._backend
        args, shape = _hot.plain(kernel, args, groups, group_size, shared)
        run = backend.run
        record = b""

        def renew(made: Prepared) -> None:
            nonlocal record
            prepared: Any = -errno.ESTALE
            while prepared == -errno.ESTALE:
                epoch = device._renew()
                record = packed(device, kernel, args, shape)
                prepared = backend.prepare(self._handle, record, epoch)
            if isinstance(prepared, int):
                refused_by_backend(device, kernel, args, shape, record, prepared)
            made.take(prepared, backend.queue_pointer(prepared) if self._in_c else 0)

        def again(made: Prepared, value: int) -> int:
            while (value := self._through(lambda: run(made.kept), value)) == -errno.ESTALE:
                renew(made)  # something was closed since: not necessarily of ours
            if value <= 0:
                refused_by_backend(device, kernel, args, shape, record, value)
            return value

        made = Prepared()
        made.again = again
        renew(made)
        return made.go if self._in_c else partial(again, made, 0)

    def _submit_slowly(self, commands: Commands, value: int) -> Fence:
        """`submit` of native/hot/launch/launch.c for lists that are new, changed, made stale by a
        close or that wait for others, and every mistake; `value` is what native code returned,
        -ESTALE if it was not asked.
        """
        if not isinstance(commands, Commands):
            raise TypeError(f"submit: Commands are wanted, got {type(commands).__name__}")
        device = self._device
        taken = partial(note, self._waits, commands._waits) if commands._waits else None
        epoch = device._epoch
        while True:
            submit = partial(self._backend.submit, self._handle, *commands._bind(self, epoch))
            value = self._through(submit, value, taken)
            if value != -errno.ESTALE:
                return self._fence(value or -errno.EPROTO, "submit")
            epoch = device._renew()

    def write(self, buffer: Buffer | Array, array: Any) -> Fence:
        """Copy a numpy array (any buffer, C order) to the start of `buffer`, a Buffer or Array.

        After what was submitted before. The array is staged: it may change as soon as this returns.
        Raises TypeError, and ValueError: too many bytes, read-only, closed, of another device.
        """
        self._check_open()
        data = _bytes("array", array)
        target = self._own("buffer", buffer, data.nbytes)
        if target.readonly:
            raise ValueError("write: the buffer is read-only")
        self._overtakes_nothing()
        return self._transfer("write", self._backend.upload, target, data)

    def read(self, buffer: Buffer | Array, out: Any) -> Fence:
        """Copy the start of `buffer`, a Buffer or Array, into `out` (writable, C order).

        After what was submitted before; `out` is kept alive until the fence is reached. Raises
        TypeError, and ValueError: too many bytes, `out` read-only or not contiguous, `buffer`
        closed or of another device.
        """
        self._check_open()
        data = _bytes("out", out)
        if data.readonly:
            raise ValueError("out: a writable array is wanted")
        source = self._own("buffer", buffer, data.nbytes)
        held: list[object] = [data]
        with self._device._retired.holding(self._handle, held):
            return self._transfer("read", self._backend.download, source, data, held)

    def copy_peer(self, dst: Buffer | Array, src: Buffer | Array) -> Fence:
        """Copy `src`, on another device of the same backend, to `dst` on this one.

        Where those devices have no way to one another, the bytes go through host memory, and this
        waits for the first half of the way, as long as `timeout_s` says.

        Raises ValueError (sizes differ, `dst` is read-only, another backend, closed), TypeError;
        while it waits, as `Fence.wait`.
        """
        self._check_open()
        source = buffer_of("src", src)
        target, peer = self._own("dst", dst, source.nbytes), source.device
        if target.nbytes != source.nbytes or target.readonly:
            raise ValueError(
                f"copy_peer: dst ({target.nbytes} bytes) cannot take src ({source.nbytes} bytes)"
            )
        if not self._device.is_peer(peer):
            raise ValueError(
                f"copy_peer: {peer.uri} and {self._device.uri} are of different backends"
            )
        self._overtakes_nothing()
        with target._open(), source._open():
            taken = partial(peer._retired.also, self._backend, self._handle)
            submit = partial(
                self._backend.copy_peer,
                self._handle,
                target._address,
                source._address,
                source.nbytes,
                peer._backend,
            )
            value = self._through(submit, 0, taken)
            if value != -errno.EOPNOTSUPP:
                return self._fence(value, "copy_peer")
            host = bytearray(source.nbytes)  # the read keeps it until it ends, also after a timeout
            peer.default_queue.read(source, host).wait(self._timeout_s)
            return self.write(target, host)

    def _overtakes_nothing(self) -> None:
        """Compute what waits before a copy that writes, which has no epoch to be refused by."""
        device = self._device
        device._pending.settle(device, wait=self is not device._default_queue)

    def _own(self, what: str, given: Any, nbytes: int) -> Buffer:
        """A Buffer or Array of this device as a Buffer of at least `nbytes` bytes."""
        buffer = buffer_of(what, given)
        self._device._check_own(f"{what}: it", buffer.device)
        if nbytes > buffer.nbytes:
            raise ValueError(f"{what}: {nbytes} bytes do not fit into its {buffer.nbytes}")
        return buffer

    def _transfer(
        self,
        call: str,
        move: Callable[..., tuple[int, object]],
        buffer: Buffer,
        data: memoryview,
        held: list[object] | None = None,
    ) -> Fence:
        """A copy of host memory by the backend's `move`; what that returns is kept until its end,
        with `held` if the retire list has that already.
        """
        kept: object = None

        def submit() -> int:
            nonlocal kept
            value, kept = move(self._handle, buffer._address, data)
            return value

        def taken(value: int) -> None:
            if held is not None:
                held.append(kept)
            elif kept is not None and self.reached < value:
                self._device._retired.hold(self._handle, value, kept)

        with buffer._open():
            value = self._through(submit, 0, taken)
        if value < 0:  # a view of a view, in a cycle by the error's traceback: CPython's gh-77894
            kept = None
        return self._fence(value, call)

    def _fence(self, value: int, call: str) -> Fence:
        """The fence of `value`, or the error that the backend returned in place of one."""
        if value < 0:  # nothing is wrong in what was submitted
            self._device._check_open()
            check_told(self._device, value, call)
        return Fence(self, value)

    def describe(self, value: int | None = None) -> str:
        """What a submission in flight is doing, in words; "" when it has ended.

        `value` says which; None: the oldest.
        """
        progress = self._backend.describe(
            self._handle, self.reached + 1 if value is None else value
        )
        return describe(self._device, progress) if progress else ""

    def close(self, timeout_s: float = 30) -> None:
        """Wait for what was submitted, then end; idempotent.

        FenceTimeout when something still runs: the queue then takes no more work and may be closed
        again.
        """
        if self.closed:
            return
        if not self._device._retired.end(self._handle, timeout_ns(timeout_s)):
            raise FenceTimeout(
                f"{self._device.uri}: a queue did not end within {timeout_s} s", self.describe()
            )
        self._finalizer.detach()
        self._device._retired.drain()


def _is_callers(error: BaseException) -> bool:
    """Was it raised by the caller's code, and not by Python or numpy on behalf of ours?"""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return not frame.f_globals["__name__"].startswith("sparkle_drv.")


def _bytes(what: str, array: Any) -> memoryview:
    """The bytes of an array or buffer, in C order; `out` must be contiguous to be written."""
    numpy = sys.modules.get("numpy")  # not imported: then this is no array of numpy's
    if numpy and isinstance(array, numpy.ndarray):
        check_fixed(f"{what}: dtype ", array.dtype)
        if array.flags.c_contiguous or what != "out":
            # Dates and records have no buffer of their own.
            return memoryview(numpy.ascontiguousarray(array).reshape(-1).view("u1"))
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(
            f"{what}: a numpy array or other buffer is wanted, got {type(array).__name__}"
        ) from None
    if view.c_contiguous:
        return view.cast("B") if view.nbytes else memoryview(bytearray())
    if what == "out":
        raise ValueError("out: a C-contiguous array is wanted")
    return memoryview(view.tobytes())
