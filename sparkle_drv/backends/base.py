"""The backend protocol: the only contract between core and a kind of device.

Handles are opaque to core. Methods that return an int return a timeline value or -errno, and core
turns -errno into an exception. A plug-in registers a class with these methods under the entry-point
group `sparkle_drv.backends`; sparkle_drv.testing.suite tests it. `open` and `discover` are static.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sparkle_drv.types import DeviceInfo, Found, Memory, Resources, TilePlan

ANY_EPOCH = 2**64 - 1
"""Stands for any epoch, for copies between memory that core keeps pinned meanwhile."""

BEGUN = 4096
"""A method of a backend that submits may also return one of two values.

-BEGUN - value: the submission has that value, but is so long that the device does not have all of
it. Core hands over the rest between checks for Ctrl-C, by the backend's `hand_over` (abilities.py).
If the backend has no `hand_over`, core waits for the value, which also hands over the rest.

-EAGAIN: the queue is full and nothing was submitted. Core asks again between checks for Ctrl-C, up
to Queue.timeout_s. A backend either waits 0.1 s for room before it returns -EAGAIN, or returns at
once and has `room` (abilities.py), which waits."""


@dataclass(frozen=True)
class Settings:
    """Settings of a device: those of the environment (core/settings.py reads them), overridden by
    the arguments of `open`.

    >>> base.Settings(home="/tmp/sparkle", threads=4).threads
    4
    """

    home: str
    """SPARKLE_HOME, a path; by default .sparkle in the user's home folder."""
    cpu_isa: str = ""
    """SPARKLE_CPU_ISA: "ref", "neon", "avx2" or "avx512"; "" is the best available."""
    threads: int = 0
    """`threads=`, else SPARKLE_THREADS, 1 to 1024; 0 is as many as this process may use."""
    libcuda: str = ""
    """SPARKLE_LIBCUDA, a path: tried before the usual places of NVIDIA's driver library."""
    recycle_mib: int | None = None
    """SPARKLE_RECYCLE_MIB, for the whole process; None if unset. recycled.py reads it."""
    deterministic: bool = False
    """`deterministic=`: no bit of a result may depend on the number of threads."""


@dataclass(frozen=True)
class Generated:
    """A kernel of the manifest that was generated for one plan and one device (codegen).

    >>> base.Generated(code="", groups=("n / 256",), group_size=(256, 1, 1)).group_size
    (256, 1, 1)
    """

    code: Any
    """By DeviceInfo.language: "glsl" text, or for "rdna" a CodeObject in memory."""
    groups: tuple[str, ...]
    """The value for `Loaded.groups`."""
    group_size: tuple[int, int, int]
    """The value for `Loaded.group_size`; the code works with this size only."""


@dataclass(frozen=True)
class KernelSpec:
    """A kernel to load: a kernel of the manifest, or a user's image.

    >>> base.KernelSpec("saxpy", "saxpy", native=None, path="saxpy.so").path
    'saxpy.so'
    """

    name: str
    """The kernel's name in messages."""
    entry: str
    """The kernel's name in the manifest, or the symbol in the image."""
    native: Any
    """cffi struct sp_signature, for sp_signature_check; lives as long as the device."""
    manifest: Any = None
    """The manifest's entry of this kernel for `info.backend`; None for a user's image."""
    path: str = ""
    """The image's file, which exists; "" if `image` has it."""
    image: bytes = b""
    """The image itself, if there is no path."""
    plan: TilePlan | None = None
    """The tile plan for a kernel of the manifest; None: the kernel chooses."""
    made: Generated | None = None
    """The code to load instead of the manifest's image; it was generated for `plan`."""
    allow_spirv: bool = False
    """May the image be SPIR-V?"""
    args: tuple[str, ...] = ()
    """The types of the arguments, in order: ("f32*", "u32")."""


@dataclass(frozen=True)
class Loaded:
    """A loaded kernel.

    A kernel that was generated for a tile plan has its own grid: `groups`, and `group_size` in
    place of the manifest's.

    >>> base.Loaded(1, 0x1000, "so", sp.Resources(max_group_size=256)).resources.max_group_size
    256
    """

    handle: Any
    """For `unload`."""
    pointer: int
    """The kernel's number in dispatch records, unique among loaded kernels."""
    form: str
    """"grid" (groups of threads) or "routine" (one call that uses the whole device)."""
    resources: Resources
    """The resources that the kernel needs."""
    groups: tuple[str, ...] = ()
    """Workgroups as formulas of the integer arguments (core/abi/extent.py): ("n/64", "m/64")."""
    group_size: tuple[int, int, int] | None = None
    """Threads of a workgroup along x, y, z; None: those of the manifest or the user apply."""


@dataclass(frozen=True)
class Allocation:
    """Memory that a backend has allocated, wrapped or imported.

    >>> base.Allocation(handle=7, address=0x1000)
    Allocation(handle=7, address=4096, memory=None)
    """

    handle: Any
    """For `free`, `map` and `export`."""
    address: int
    """The device address of the first byte."""
    memory: Memory | None = None
    """The kind of memory of an import; None stands for Memory.SHARED."""


@dataclass(frozen=True)
class Progress:
    """The progress of a submission that has not ended.

    >>> base.Progress(b"", running_at=0, groups_done=3, groups_total=8, running_s=0.5).groups_done
    3
    """

    records: bytes
    """The records of the submission."""
    running_at: int
    """Offset in bytes of the record that runs; at or past the end if none has begun."""
    groups_done: int
    """Workgroups of that record that have ended."""
    groups_total: int
    """Workgroups of that record; 0 if unknown, or no dispatch."""
    running_s: float
    """Seconds since that record began."""


class Backend(Protocol):
    """One open device. Any thread may call any method. The handles in a call must be open.

    Handles belong to the backend: core keeps them and passes them back. A *record* is the bytes of
    one command, as in native/include/sp_cmd.h. A *value* is a point on a queue's timeline:
    submissions get 1, 2, 3 and so on in order, and each sees the results of those before it. A
    returned int below 0 is -errno: core raises the exception (errors.check), not the backend. `/`
    marks methods that may be native functions; they are called by position.

    abilities.py has optional members, one ability each.

    >>> abilities.members(base.Backend)[:3]
    ['info', 'alloc', 'free']
    """

    info: DeviceInfo
    """Constant once the device is open."""

    @staticmethod
    def discover(settings: Settings) -> Sequence[Found]:
        """Returns all devices, each usable or with a reason why not. Must be quick, and raises
        nothing if the hardware is absent.
        """

    @staticmethod
    def open(uri: str, settings: Settings) -> Backend:
        """Opens the device of "scheme" or "scheme:which". Raises DeviceNotFound with the reason if
        it cannot be used.
        """

    def alloc(self, nbytes: int, memory: Memory) -> Allocation:
        """Allocates `nbytes` (0 or more) zeroed bytes, aligned to 64 bytes. Raises
        OutOfDeviceMemory.
        """

    def free(self, handle: Any) -> None:
        """Frees an Allocation. Core calls this once per Allocation, possibly after `close`, when no
        submitted work uses the memory any more.
        """

    def map(self, handle: Any, nbytes: int) -> Any:
        """Returns a writable object for memoryview() over the first `nbytes` bytes.

        The object keeps the memory alive, also past `free`, since numpy arrays hold the object.
        """

    def wrap(self, pointer: int, nbytes: int, owner: object) -> Allocation:
        """Returns an Allocation of host memory at `pointer`, in place.

        `owner` is kept alive until `free`, and as long as any result of `map` exists.
        """

    def export(self, handle: Any) -> int:
        """Returns a new file descriptor, which the caller closes. Raises ValueError unless the
        memory is Memory.SHARED, or from `alloc_exportable` (abilities.py).
        """

    def import_(self, fd: int, nbytes: int) -> Allocation:
        """Returns an Allocation of the first `nbytes` (above 0) bytes of an exported descriptor,
        which the caller still owns.

        Raises ValueError if the descriptor has fewer bytes or cannot be mapped, and OSError for
        other failures of the operating system.
        """

    def upload(self, queue: Any, address: int, data: memoryview) -> tuple[int, object]:
        """Copies `data` (bytes in C order) to the device, after earlier submissions.

        Returns (value, object). The value is that of the copy's submission, or of the newest
        submission if nothing had to be submitted; on failure it is -errno. Core keeps the object,
        which may be None, alive until the value is reached. `data` may change once this method
        returns. Raises OutOfDeviceMemory.
        """

    def download(self, queue: Any, address: int, out: memoryview) -> tuple[int, object]:
        """Copies from the device into `out` (writable bytes in C order). Returns a value of the
        queue and an object or None, like `upload`.

        The bytes have arrived when the queue reaches the value.
        """

    def copy_peer(self, queue: Any, dst: int, src: int, nbytes: int, peer: Backend) -> int:
        """Copies from address `src` on `peer`, a device of the same backend, to `dst` here. Returns
        the value or -errno.

        -EOPNOTSUPP means that the devices cannot copy directly; core then copies through the
        host. `queue` is of this device. The copy does not wait for the peer's queues: callers wait
        for the peer's fences.
        """

    def load(self, spec: KernelSpec) -> Loaded:
        """Loads a kernel. Raises ImageError with the loader's text, ValueError for a bad plan."""

    def unload(self, handle: Any) -> None:
        """Unloads a kernel. Core calls this once per kernel, possibly after `close`, when no
        submitted work uses the kernel any more.
        """

    def open_queue(self, timing: bool) -> Any:
        """Opens a new queue at value 0. With `timing`, core will call `times`. Raises SparkleError
        if the driver opens no queue.

        `submitted`, `settled`, `reached`, `wait` and `times` work as long as the handle is
        referenced, also past `close_queue`.
        """

    def close_queue(self, queue: Any, timeout_ns: int) -> int:
        """Stops accepting work, waits for submitted work, and closes. Returns 0 or -errno.

        Returns -ETIMEDOUT if work still runs after `timeout_ns` ns; core then calls again.
        """

    def queue_pointer(self, queue: Any) -> int:
        """Returns the integer, such as an address, by which records name this queue when they wait
        for it.
        """

    def check(self, record: bytes, nbytes: int, /) -> int:
        """Returns 0, or the -errno with which `launch` would refuse this record."""

    def epoch(self) -> int:
        """Returns the epoch, which `advance` increments. A record is submitted with the epoch that
        was read before the record was packed.
        """

    def advance(self) -> int:
        """Increments the epoch and returns it. Core calls `advance` after marking a buffer or
        kernel closed. Then core asks each queue for `settled`, the value of its newest submission.
        Any later submission of a record with the old epoch is refused with -ESTALE.
        """

    def launch(self, queue: Any, record: bytes, nbytes: int, epoch: int, /) -> int:
        """Submits one dispatch record, which is copied before this method returns. Returns the
        value of the submission or -errno.

        -ESTALE means that the epoch has advanced and nothing was submitted; core then checks the
        arguments again. The sizes of the buffers are checked (sp_signature_check) before memory is
        touched. If the work fails before this method returns, the result may be the -errno of
        that failure.
        """

    def prepare(self, queue: Any, record: bytes, epoch: int) -> Any:
        """Returns a handle with a checked copy of a dispatch record for `run`, or -errno
        as an int.
        """

    def run(self, prepared: Any, /) -> int:
        """Submits a prepared launch, any number of times. Returns the value of the submission or
        -errno, like `launch`.
        """

    def submit(self, queue: Any, records: Any, nbytes: int, epoch: int, /) -> int:
        """Submits `nbytes` bytes of records as one submission that runs them in order. Returns the
        value or -errno.

        `records` is a cffi char pointer (NULL for no bytes), copied before this method returns.
        """

    def submitted(self, queue: Any, /) -> int:
        """Returns the value of the newest submission. Never blocks."""

    def settled(self, queue: Any, /) -> int:
        """Returns what `submitted` returns, but only while no submitting call is half done. A
        half-done call has checked the epoch, but has not yet advanced the queue's newest value.

        Finalizers may call this method at any point, even inside a submitting call of the same
        thread. The finalizer's thread may also hold a lock that another thread's submitting call
        waits for. So if a backend's submitting calls run Python while they are half done, this
        method must not wait for such a call. Instead, `settled` returns -EAGAIN; core asks again.
        """

    def reached(self, queue: Any, /) -> int:
        """Returns the value up to which all work has ended, with or without faults. Never
        blocks.
        """

    def wait(self, queue: Any, value: int, timeout_ns: int, /) -> int:
        """Blocks until `value` is reached, at most `timeout_ns` ns; 0 only checks.

        Returns 0, -ETIMEDOUT, or the -errno with which that submission ended. `wait` marks such a
        failure as reported; `failure` (abilities.py) does not. Releases the GIL. Core waits 0.1 s
        at a time, so that Ctrl-C is noticed.
        """

    def times(self, queue: Any, value: int) -> tuple[int, int] | None:
        """Returns (start, end) of a submission in ns of the device clock. Returns None if the queue
        records no times, or no longer keeps those of this submission.
        """

    def describe(self, queue: Any, value: int) -> Progress | None:
        """Returns the progress of a submission; None once it has ended."""

    def timestamp(self) -> int:
        """Returns the device clock in ns, as timestamp records store it. Raises SparkleError if the
        device has no clock.
        """

    def sensors(self) -> dict[str, float]:
        """Returns the device's present measurements, with units in the names ("frequency_mhz"); may
        be empty.
        """

    def live_counts(self) -> dict[str, int]:
        """Returns how many native objects of each kind the whole process has, by name. The value of
        a name "..._nbytes" is a number of bytes.
        """

    def close(self) -> None:
        """Releases the device. Called once.

        A queue may still run work that nobody waited for. The resources of such a queue stay, and
        `reached`, `close_queue`, `epoch`, `advance`, `free` and `unload` may be called afterwards.

        Calls of other threads may be in progress, or begin at the same time. Each either does its
        work or fails as for a closed device: with DeviceLost, or -ESHUTDOWN where it returns an
        int. Core closes what such a call opens.
        """


class Waker(Protocol):
    """One wait of one thread, made by Lanes.waker.

    >>> abilities.members(base.Waker)
    ['set', 'wait']
    """

    def set(self) -> None:
        """Makes `wait` return. If `wait` is not called yet, it will return at once."""

    def wait(self, until_s: float) -> None:
        """Waits until `set` is called, at most until the simulated clock shows `until_s`."""


class Lanes(Protocol):
    """A simulated clock for parallel threads, the lanes of a program (mesh/lanes/runner.py). The
    clock jumps to its next event only when all lanes wait.

    >>> abilities.members(base.Lanes)
    ['enter', 'attach', 'leave', 'waits', 'wakes', 'outlives', 'waker']
    """

    def enter(self, n: int = 1) -> None:
        """Counts `n` more lanes as running. Called before their threads start."""

    def attach(self) -> None:
        """Marks the calling thread as one of the lanes."""

    def leave(self) -> None:
        """Ends a lane: that of the calling thread, or one whose thread never began."""

    def waits(self) -> None:
        """Marks this thread's lane as waiting for another lane."""

    def wakes(self, n: int = 1) -> None:
        """Counts `n` waiting lanes as running, since they are about to be woken."""

    def outlives(self, thread: int) -> None:
        """Tells the simulated clock that a lane's work has ended, although its thread still runs.
        `thread` is the thread's threading.get_ident(). From then on, a wait of this thread alone
        does not make the clock jump to the wait's end.
        """

    def waker(self) -> Waker:
        """Returns a Waker for one wait of the calling thread. Another thread or a timeout
        ends the wait.
        """
