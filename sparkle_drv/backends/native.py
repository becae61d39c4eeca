"""The common part of backends in native code: queues, prepared launches, epochs, progress.

A family is a kind of device: cpu, egl, cuda or amdgpu. The C functions of sp_queue.h accept devices
and queues of every family. Other functions exist once per family with equal declarations, such as
sp_<family>_queue_open; sp_cpu.h documents them. A backend's attribute
`_native` is a `Native`, which has the device. Some methods of the backend are those of its
`Native`; the Python descriptor `Lent` forwards them.
Memory, images and kernels are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends.base import ANY_EPOCH, Progress
from sparkle_drv.errors import DeviceLost, check

_P = ParamSpec("_P")
_R = TypeVar("_R")
_FEW, _MANY = 4096, 1 << 26  # room in bytes for the records of `describe`: first try, second try


class Native:
    """The native device of one backend, and its queues. `device` is a cffi pointer to struct
    sp_<family> that ffi.gc releases. `uri` is for messages.

    A call in one thread and `close` in another are safe without a lock. The call's reference to
    `device` keeps the native device until the call returns. A call that begins later raises
    DeviceLost.
    """

    def __init__(self, family: str, device: Any, uri: str) -> None:
        self._device = device
        self._family = family
        self._uri = uri
        self.launch, self.run, self.submit = self._c("launch"), self._c("run"), self._c("submit")
        self.submitted, self.settled = lib.sp_queue_submitted, lib.sp_queue_settled
        self.reached, self.wait = self._c("reached"), self._c("wait")

    @property
    def device(self) -> Any:
        """The native device. Raises DeviceLost once it is closed."""
        device = self._device  # read once: another thread may close the device
        if device is None:
            raise DeviceLost(f"{self._uri}: the device is closed")
        return device

    def close(self) -> Any:
        """Returns the native device, or None if it was closed before. Later calls raise
        DeviceLost.
        """
        device, self._device = self._device, None
        return device

    def _c(self, name: str) -> Any:
        return getattr(lib, f"sp_{self._family}_{name}")

    def open_queue(self, timing: bool) -> Any:
        out = ffi.new(f"struct sp_{self._family}_queue **")
        flags = lib.SP_QUEUE_TIMING if timing else 0
        check(self._c("queue_open")(self.device, flags, out), "open a queue", self._uri)
        return ffi.gc(out[0], lib.sp_queue_release)

    def close_queue(self, queue: Any, timeout_ns: int) -> int:
        rc: int = self._c("queue_close")(queue, timeout_ns)
        return rc

    def queue_pointer(self, queue: Any) -> int:
        return int(ffi.cast("uintptr_t", queue))

    def check(self, record: bytes, nbytes: int) -> int:
        rc: int = self._c("check")(self.device, record, nbytes)
        return rc

    def epoch(self) -> int:
        device = self._device
        now: int = 0 if device is None else lib.sp_device_epoch(device)
        return now

    def advance(self) -> int:
        device = self._device
        now: int = 0 if device is None else lib.sp_device_advance(device)
        return now

    def prepare(self, queue: Any, record: bytes, epoch: int) -> Any:
        out = ffi.new("struct sp_prepared **")
        rc = lib.sp_prepare(queue, record, len(record), epoch, out)
        return ffi.gc(out[0], lib.sp_unprepare) if rc == 0 else rc

    def copy(self, queue: Any, dst: int, src: int, nbytes: int) -> int:
        """Submits one copy between addresses that the device reaches. Returns the value
        or -errno.
        """
        size = ffi.sizeof("struct sp_cmd_copy")
        record = ffi.new("struct sp_cmd_copy *", (lib.SP_CMD_COPY, size, dst, src, nbytes))
        value: int = self.submit(queue, record, size, ANY_EPOCH)
        return value

    def failure(self, queue: Any, value: int) -> int:
        rc: int = lib.sp_queue_failure(queue, value)
        return rc

    def times(self, queue: Any, value: int) -> tuple[int, int] | None:
        start, end = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        rc = lib.sp_queue_times(queue, value, start, end)
        return (start[0], end[0]) if rc == 0 else None

    def describe(self, queue: Any, value: int) -> Progress | None:
        out = ffi.new("struct sp_progress *")
        for capacity in (_FEW, _MANY):
            records = ffi.new("char[]", capacity)
            got = self._c("peek")(queue, value, records, capacity, out)
            if got <= capacity:
                break
        if got < 0:
            return None
        return Progress(
            bytes(ffi.buffer(records, min(got, capacity))),
            out.running_at,
            out.groups_done,
            out.groups_total,
            out.running_ns / 1e9,
        )

    def timestamp(self) -> int:
        """Returns CLOCK_MONOTONIC in ns, the clock of all devices in native code."""
        now: int = lib.sp_clock_ns()
        return now

    def live_counts(self) -> dict[str, int]:
        live = ffi.new("struct sp_live *")
        lib.sp_live_counts(live)
        return {name: getattr(live, name) for name, _ in ffi.typeof("struct sp_live").fields}


class Lent(Generic[_P, _R]):
    """A Python descriptor that gives a backend's class a method of Native. A call of the method
    goes to the backend's attribute `_native`.
    """

    def __init__(self, method: Callable[Concatenate[Native, _P], _R]) -> None:
        self._method = method

    def __get__(self, backend: Any, owner: type) -> Callable[_P, _R]:
        of: Any = self._method if backend is None else MethodType(self._method, backend._native)
        return cast("Callable[_P, _R]", of)


def kernel_pointer(kernel: Any) -> int:
    """Returns the address of a native kernel, by which dispatch records name the kernel."""
    return int(ffi.cast("uintptr_t", kernel))
