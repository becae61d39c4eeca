"""Queue: takes launches, command lists and copies, and gives each a value on its timeline.

The lock that orders submissions is in native code, so this file needs none. `launch` and `prepare`
are the hot paths. They do only what a valid launch needs; core/launch_errors.py finds out why a
launch was refused.
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
    """An ordered sequence of submissions to one device, made by `Device.queue`.

    Any thread may submit; timeline values follow the order of submission. `timing` says whether the
    queue keeps device times. Submitting to a closed queue, or to a queue of a closed device, raises
    DeviceLost.

    >>> x, k = dev.empty((16,), np.float32), dev.kernel("fill_f32")
    >>> with dev.queue(timing=True) as q:
    ...     fence = q.launch(k, x.buffer, 3.0, 16, groups=1)
    ...     fence.wait(timeout_s=30).time_ns > 0
    True
    >>> float(x.numpy()[0])
    3.0
    """

    __slots__ = (
        "__weakref__", "_backend", "_finalizer", "_followed", "_handle", "_in_c", "_timeout_s",
        "_waits", "timing",
    )  # fmt: skip
    BRIEFLY = (BRIEFLY_S,)
    timing: bool
    _backend: Backend
    _finalizer: Any
    _followed: tuple[Queue, int] | None  # the newest expression for which this queue waits
    _handle: Any
    _in_c: bool  # True if C calls the backend's functions without Python
    _timeout_s: float
    _waits: list[Waited]

    # Types of the members of QueueBase, whose declaration cannot name Device, Kernel and Fence.
    if TYPE_CHECKING:
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
        self.timing, self._timeout_s, self._followed = timing, TIMEOUT_S, None
        key, brief = retired.opened(self, handle), timeout_ns(BRIEFLY_S)
        self._finalizer = weakref.finalize(self, retired.forget, key, brief)
        return self

    def __repr__(self) -> str:
        return f"<Queue of {self._device.uri}{' closed' if self.closed else ''} at {self.reached}>"

    @property
    def device(self) -> Device:
        """The device on which the queue's work runs."""
        return self._device

    @property
    def closed(self) -> bool:
        """True once the queue is closed. False after a `close` that timed out."""
        return not self._finalizer.alive

    def _check_open(self) -> None:
        self._device._check_open()
        if self.closed:
            raise DeviceLost(f"{self._device.uri}: the queue is closed")

    @property
    def timeout_s(self) -> float:
        """The timeout in seconds of waits for this queue that give none; 30 by default.

        The timeout applies to `Fence.wait()`, and to every operation and copy that waits for its
        result. It also limits how long a submission waits for room in a full queue. Operations run
        on `Device.default_queue`, so the `timeout_s` of that queue applies to them. `timeout_s` may
        be set at any time. An invalid value raises TypeError or ValueError as in `Fence.wait`.
        """
        return self._timeout_s

    @timeout_s.setter
    def timeout_s(self, timeout_s: float) -> None:
        self._timeout_s = timeout_ns(timeout_s) / 1e9

    @property
    def submitted(self) -> int:
        """The value of the newest submission; 0 before the first. Never blocks."""
        return self._backend.submitted(self._handle)

    @property
    def reached(self) -> int:
        """The timeline's value: all submissions up to this value have ended. Never blocks."""
        return self._backend.reached(self._handle)

    @property
    def stream(self) -> int:
        """The handle of the stream in which the queue's work runs, for other libraries.

        Only queues of CUDA devices have such a stream; others raise ValueError.
        """
        self._check_open()
        return int(interop.shares_of(self.device).share_stream(self._handle))

    def wait_stream(self, stream: int) -> None:
        """Makes later submissions to this queue wait for the present work of a foreign `stream`.

        `stream` is a handle, 1 (the legacy default stream) or 2 (this thread's default stream). The
        host does not wait. Raises TypeError if `stream` is not a whole number. Raises ValueError if
        it is out of range, or if the device has no streams (see `Queue.stream`).
        """
        interop.with_stream(self, "wait_stream", stream)

    def order_stream(self, stream: int) -> None:
        """Makes later work of a foreign `stream` wait for the present submissions to this queue.

        `stream` and the errors are those of `wait_stream`. The host does not wait.
        """
        interop.with_stream(self, "order_stream", stream)

    def _failed(self, value: int) -> bool:
        """Returns whether the submission of a reached value failed.

        If the backend has the ability TellsFailure, the failure is not marked as reported, so a
        later wait still raises it.
        """
        tells = self._device._abilities.tells_failure
        if tells is not None:
            return tells.failure(self._handle, value) != 0
        # A backend without the ability TellsFailure reports the failure of a submission to one wait
        # only. If this is that wait, a later wait does not raise the failure.
        return self._backend.wait(self._handle, value, 0) != 0

    def fence(self, value: int) -> Fence:
        """Returns the fence of a value that a prepared launch returned.

        Raises TypeError if `value` is not an int. Raises ValueError unless it is from 0 to
        `submitted`, the value of the newest submission.
        """
        value = operator.index(value)
        if not 0 <= value <= self.submitted:
            raise ValueError(f"fence: expected a value from 0 to {self.submitted}, got {value}")
        return Fence(self, value)

    def _launch_slowly(self, kernel: Any, value: int, args: tuple[Any, ...], shape: Shape) -> Fence:
        """Does the launches that native/hot/launch/launch.c does not handle.

        These are launches on backends in Python, launches with arrays that need wrapping, launches
        with a stale epoch, and all launches that fail. `_hot.plain` has converted the numbers in
        `args` and `shape`. `value` is what the backend returned to native code, or 0 if native code
        did not call the backend.
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
            # Read before the checks: a close during or after the checks makes this epoch stale.
            epoch = device._renew(self)
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
        self, submit: Callable[[], int], value: int, after: Callable[[int], None] | None = None
    ) -> int:
        """Calls `submit` again and again until the queue has room for the submission. Returns the
        result of the last call.

        Raises FenceTimeout if there was no room for `timeout_s` seconds; then nothing was
        submitted. `value` is the result of an earlier call of the backend for this submission, or
        0 if there was none. `after` is called with the new value at once, because Ctrl-C may
        interrupt the code that follows.
        """
        if value in (0, -errno.ESTALE):
            value = submit()
        makes = self._device._abilities.makes_room
        deadline = time.monotonic() + self._timeout_s
        while value == -errno.EAGAIN:
            if time.monotonic() >= deadline:
                raise FenceTimeout(
                    f"{self._device.uri}: the queue is full and had no room within "
                    f"{self._timeout_s:g} s; {self.submitted - self.reached} submissions are in "
                    "flight, nothing was submitted",
                    self.describe(),
                )
            if makes is not None:
                makes.room(self._handle, SLICE_NS)
            else:  # the backend cannot wait until the full queue has room, so sleep
                time.sleep(0.001)
            value = submit()
        begun = value <= -BEGUN
        value = -BEGUN - value if begun else value
        if after is not None and value > 0:
            after(value)
        if begun:
            self._hand_over(value)
        return value

    def _hand_over(self, value: int) -> None:
        """Sends the device the rest of a submission of which it has only a part so far.

        An error, or a device that takes nothing for `timeout_s` seconds, is not reported here. A
        wait for the fence reports it, and sends any part that is left.
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
        """Returns the arguments, with numpy arrays and DLPack exporters converted to pointers."""
        return [
            self._pointer(f"{kernel.name}: argument {arg.name} ({arg.type})", argument)
            if arg.is_pointer
            else argument
            for arg, argument in zip(kernel.args, args, strict=False)
        ]

    def _pointer(self, where: str, argument: Any) -> Any:
        if isinstance(argument, Pointer):
            argument._ready()
        if argument is None or isinstance(argument, PointerBase):
            return argument
        device = self._device
        try:
            foreign = interop.borrowed(self, argument)
            if foreign is not None:
                return foreign
            if device.info.unified:
                return HostPointer(device, host_array("array", argument))
        except (TypeError, ValueError) as error:
            if _is_callers(error):
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{where}: cannot use this array: {error}") from error
        raise TypeError(
            f"{where}: expected a Buffer or Array, got {type(argument).__name__}; {device.uri} "
            "cannot read host arrays, so copy it with Device.array first"
        )

    def prepare(
        self,
        kernel: Kernel,
        *args: Any,
        groups: Any = None,
        group_size: Any = None,
        shared: int = 0,
    ) -> Callable[[], int]:
        """Returns a callable that launches `kernel`, whose arguments are checked and packed now.

        The callable returns the timeline value; `Queue.fence(value)` gives the fence of that value.
        The arguments are those of `launch`, but not numpy arrays. The callable keeps its kernel and
        arguments alive. If one of them is closed, the next call raises. This method and the
        callable raise the errors of `launch`.
        """
        device, backend = self._device, self._backend
        args, shape = _hot.plain(kernel, args, groups, group_size, shared)
        run = backend.run
        record = b""

        def renew(launch: Prepared) -> None:
            nonlocal record
            prepared: Any = -errno.ESTALE
            while prepared == -errno.ESTALE:
                epoch = device._renew(self)
                record = packed(device, kernel, args, shape)
                prepared = backend.prepare(self._handle, record, epoch)
            if isinstance(prepared, int):
                refused_by_backend(device, kernel, args, shape, record, prepared)
            launch.take(prepared, backend.queue_pointer(prepared) if self._in_c else 0)

        def again(launch: Prepared, value: int) -> int:
            while (value := self._through(lambda: run(launch.kept), value)) == -errno.ESTALE:
                # ESTALE: an object of the device was closed since the last check. It may be one
                # that this launch does not use, so check again.
                renew(launch)
            if value <= 0:
                refused_by_backend(device, kernel, args, shape, record, value)
            return value

        launch = Prepared()
        launch.again = again
        renew(launch)
        return launch.go if self._in_c else partial(again, launch, 0)

    def _submit_slowly(self, commands: Commands, value: int) -> Fence:
        """Does the submissions that `submit` of native/hot/launch/launch.c does not handle.

        These are lists that are new, changed, or stale after a close, lists that wait for fences,
        and all submissions that fail. `value` is what the backend returned to native code, or
        -ESTALE if native code did not call the backend.
        """
        if not isinstance(commands, Commands):
            raise TypeError(f"submit: expected Commands, got {type(commands).__name__}")
        device = self._device
        after = partial(note, self._waits, commands._waits) if commands._waits else None
        epoch = device._epoch
        while True:
            submit = partial(self._backend.submit, self._handle, *commands._bind(self, epoch))
            value = self._through(submit, value, after)
            if value != -errno.ESTALE:
                return self._fence(value or -errno.EPROTO, "submit")
            epoch = device._renew(self)

    def write(self, buffer: Buffer | Array, array: Any) -> Fence:
        """Copies a numpy array (or any object with the buffer protocol, C order) to `buffer`.

        `buffer` is a Buffer or Array, which is written from its start. The copy runs after earlier
        submissions. The bytes of `array` are taken during this call, so `array` may change
        afterwards. Raises TypeError for an argument of a wrong type. Raises ValueError for too many
        bytes, and if `buffer` is read-only, closed or of another device.
        """
        self._check_open()
        data = _bytes("array", array)
        target = self._own("buffer", buffer, data.nbytes)
        if target.readonly:
            raise ValueError("write: expected a writable buffer, got a read-only one")
        self._overtakes_nothing()
        return self._transfer("write", self._backend.upload, target, data)

    def read(self, buffer: Buffer | Array, out: Any) -> Fence:
        """Copies the start of `buffer`, a Buffer or Array, into `out` (writable, C order).

        The copy runs after earlier submissions; `out` is kept alive until the fence is reached.
        Raises TypeError for an argument of a wrong type. Raises ValueError for too many bytes, if
        `out` is read-only or not contiguous, and if `buffer` is closed or of another device.
        """
        self._check_open()
        data = _bytes("out", out)
        if data.readonly:
            raise ValueError("out: expected a writable array, got a read-only one")
        source = self._own("buffer", buffer, data.nbytes)
        self._overtakes_nothing()
        keepalive: list[object] = [data]
        try:
            with self._device._retired.holding(self._handle, keepalive):
                return self._transfer("read", self._backend.download, source, data, keepalive)
        finally:
            keepalive = []  # as in `_transfer`

    def copy_peer(self, dst: Buffer | Array, src: Buffer | Array) -> Fence:
        """Copies `src`, on another device of the same backend, to `dst` on this device.

        If the devices cannot copy directly, the bytes go through host memory. The call then waits
        up to `timeout_s` for the copy to the host, and raises the errors of `Fence.wait`.

        Raises TypeError unless both are Buffers or Arrays. Raises ValueError if the sizes differ,
        `dst` is read-only, the backends differ, or a buffer is closed.
        """
        self._check_open()
        source = buffer_of("src", src)
        target, peer = self._own("dst", dst, source.nbytes), source.device
        if target.nbytes != source.nbytes or target.readonly:
            raise ValueError(
                f"copy_peer: expected a writable dst of {source.nbytes} bytes, as src, got one of "
                f"{target.nbytes}{', read-only' if target.readonly else ''}"
            )
        if not self._device.is_peer(peer):
            raise ValueError(
                f"copy_peer: {peer.uri} and {self._device.uri} have different backends"
            )
        self._overtakes_nothing()
        peer._pending.settle(wait=True)  # `src` may be an expression; this queue cannot wait for it
        # The peer's queues do not show when the copy ends, so this entry keeps the source's memory.
        _pins: Any = target._open().pin(), source._open().pin()
        try:
            with self._device._retired.holding(self._handle, _pins):
                submit = partial(
                    self._backend.copy_peer,
                    self._handle,
                    target._address,
                    source._address,
                    source.nbytes,
                    peer._backend,
                )
                value = self._through(submit, 0)
                if value != -errno.EOPNOTSUPP:
                    return self._fence(value, "copy_peer")
                host = bytearray(source.nbytes)  # `read` keeps these bytes until the copy ends
                peer.default_queue.read(source, host).wait(self._timeout_s)
                return self.write(target, host)
        finally:
            _pins = None  # as in `_transfer`

    def _overtakes_nothing(self) -> None:
        """Orders the copy that follows behind all expressions, whose operands it may change and
        whose results it may read.

        A launch does not need this call: the backend refuses it as stale by its epoch, and it is
        repeated. A copy has no epoch.
        """
        device = self._device
        if device._epoch != device._backend.epoch():
            device._renew(self)

    def _follow(self, queue: Queue, value: int) -> None:
        """Makes later work of this queue wait on the device for the value of another queue."""
        if self._followed != (queue, value):
            self.submit(Commands().wait(Fence(queue, value)))
            self._followed = queue, value

    def _own(self, what: str, memory: Any, nbytes: int) -> Buffer:
        """Returns the Buffer of `memory`, a Buffer or Array of this device.

        Raises TypeError or ValueError for anything else, and for fewer than `nbytes` bytes.
        """
        buffer = buffer_of(what, memory)
        self._device._check_own(f"{what}: it", buffer.device)
        if nbytes > buffer.nbytes:
            raise ValueError(f"{what}: expected {nbytes} bytes or more, got {buffer.nbytes}")
        return buffer

    def _transfer(
        self,
        call: str,
        move: Callable[..., tuple[int, object]],
        buffer: Buffer,
        data: memoryview,
        keepalive: list[object] | None = None,
    ) -> Fence:
        """Copies host memory by the backend's `move`.

        The object that `move` returns is kept until the copy ends. If `keepalive` is given, it is a
        list that the retire list already keeps, and the object is added to `keepalive`. Otherwise
        the retire list gets the object.
        """
        kept: object = None

        def submit() -> int:
            nonlocal kept
            value, kept = move(self._handle, buffer._address, data)
            return value

        def keep(value: int) -> None:
            if keepalive is not None:
                keepalive.append(kept)
            elif kept is not None and self.reached < value:
                self._device._retired.hold(self._handle, value, kept)

        _pin: Any = buffer._open().pin()
        try:
            value = self._through(submit, 0, keep)
        finally:
            # A traceback, of any call below this one, may keep the variables of this call in a
            # reference cycle. `kept` has a buffer of the memoryview `data`, and CPython before
            # 3.12.6 crashes when it collects both in one cycle (gh-77894).
            kept = keepalive = _pin = None
        return self._fence(value, call)

    def _fence(self, value: int, call: str) -> Fence:
        """Returns the fence of `value`, or raises the error if `value` is the backend's -errno."""
        if value < 0:  # an error of the device, not of the arguments
            self._device._check_open()
            check_told(self._device, value, call)
        return Fence(self, value)

    def describe(self, value: int | None = None) -> str:
        """Returns the state of a submission in flight in words; "" if the submission has ended.

        `value` is the submission's timeline value; None means the oldest submission in flight.
        """
        progress = self._backend.describe(
            self._handle, self.reached + 1 if value is None else value
        )
        return describe(self._device, progress) if progress else ""

    def close(self, timeout_s: float = 30) -> None:
        """Waits for all submissions, then closes the queue; a second call does nothing.

        Raises FenceTimeout if a submission still runs after `timeout_s` seconds. The queue then
        takes no more work, and `close` may be called again.
        """
        if self.closed:
            return
        if not self._device._retired.end(self._handle, timeout_ns(timeout_s)):
            raise FenceTimeout(
                f"{self._device.uri}: work of a queue did not end within {timeout_s} s",
                self.describe(),
            )
        self._finalizer.detach()
        self._device._retired.drain()


def _is_callers(error: BaseException) -> bool:
    """Returns whether the caller's code raised `error`; False if this package's code did."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return not frame.f_globals["__name__"].startswith("sparkle_drv.")


def _bytes(what: str, array: Any) -> memoryview:
    """Returns the bytes of an array or buffer, in C order.

    If `what` is "out", the bytes will be written. The array is then not copied, so it must be
    contiguous.
    """
    numpy = sys.modules.get("numpy")  # if nobody imported numpy, `array` is not a numpy array
    if numpy and isinstance(array, numpy.ndarray):
        check_fixed(f"{what}: dtype ", array.dtype)
        if array.flags.c_contiguous or what != "out":
            # The array is viewed as bytes, because numpy does not export dates and records as a
            # buffer.
            return memoryview(numpy.ascontiguousarray(array).reshape(-1).view("u1"))
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(
            f"{what}: expected a numpy array or other buffer, got {type(array).__name__}"
        ) from None
    if view.c_contiguous:
        return view.cast("B") if view.nbytes else memoryview(bytearray())
    if what == "out":
        raise ValueError("out: expected a C-contiguous array")
    return memoryview(view.tobytes())
