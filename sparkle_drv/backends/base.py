"""The backend protocol: the only contract between core and a kind of device.

Handles are opaque to core. Methods that return an int return a timeline value or -errno; core alone
raises from those. A plug-in registers a class with these methods under the entry-point group
`sparkle_drv.backends`; sparkle_drv.testing.suite judges it. `open` and `discover` are static.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sparkle_drv.types import DeviceInfo, Found, Memory, Resources, TilePlan

ANY_EPOCH = 2**64 - 1
"""In place of an epoch, for copies between memory that core keeps pinned meanwhile."""

BEGUN = 4096
"""Submits may return two more things.

-BEGUN - value: the submission has that value, but is so long that not all of it is with the device.
Core hands over the rest between looks at Ctrl-C, by the backend's `hand_over` (abilities.py); else
core waits for the value, which hands over the rest, too.

-EAGAIN: the queue is full and nothing was submitted. Core asks again between looks at Ctrl-C, for
as long as Queue.timeout_s says. A backend waits for room for 0.1 s before it returns that, or it
returns at once and has `room` (abilities.py), which waits."""


@dataclass(frozen=True)
class Settings:
    """What a device is opened with: the environment (core/settings.py reads it), and what the
    caller of `open` asks for, which goes before it.
    """

    home: str
    """SPARKLE_HOME, a path: by default .sparkle in the user's home folder."""
    cpu_isa: str = ""
    """SPARKLE_CPU_ISA: "ref", "neon", "avx2" or "avx512"; "": the best there is."""
    threads: int = 0
    """`threads=`, else SPARKLE_THREADS, 1 to 1024; 0: as many as this process may use."""
    libcuda: str = ""
    """SPARKLE_LIBCUDA, a path: tried before the usual places of NVIDIA's driver library."""
    recycle_mib: int | None = None
    """SPARKLE_RECYCLE_MIB; None: not said. Of the whole process: recycled.py reads it."""
    deterministic: bool = False
    """`deterministic=`: no bit of a result may depend on how many threads compute it."""


@dataclass(frozen=True)
class Generated:
    """A kernel of the manifest that was made for one plan and one device (codegen)."""

    code: Any
    """By DeviceInfo.language: "glsl" text, or for "rdna" a CodeObject in memory."""
    groups: tuple[str, ...]
    """For `Loaded.groups`."""
    group_size: tuple[int, int, int]
    """For `Loaded.group_size`: the code works with this size alone."""


@dataclass(frozen=True)
class KernelSpec:
    """What to load: a kernel of the manifest, or a user's image."""

    name: str
    """For messages."""
    entry: str
    """The kernel's name in the manifest, or the symbol in the image."""
    native: Any
    """cffi struct sp_signature, for sp_signature_check; lives as long as the device."""
    manifest: Any = None
    """What the manifest says of this kernel for `info.backend`; None: a user's image."""
    path: str = ""
    """The image's file, which exists; "": see `image`."""
    image: bytes = b""
    """The image itself, if there is no path."""
    plan: TilePlan | None = None
    """Shapes a manifest kernel; None: its own choice."""
    made: Generated | None = None
    """What to load in place of the manifest's image: `plan` is in it."""
    allow_spirv: bool = False
    """May the image be SPIR-V?"""
    args: tuple[str, ...] = ()
    """The types of the arguments, in order: ("f32*", "u32")."""


@dataclass(frozen=True)
class Loaded:
    """A loaded kernel.

    One that was generated for a tile plan knows its grid: `groups`, and `group_size` in place of
    the manifest's.
    """

    handle: Any
    """For `unload`."""
    pointer: int
    """What dispatch records carry, not that of any other loaded kernel."""
    form: str
    """"grid" (groups of threads) or "routine" (one call that uses the whole device)."""
    resources: Resources
    """What it takes."""
    groups: tuple[str, ...] = ()
    """Workgroups in terms of its integer arguments (core/abi/extent.py): ("n/64", "m/64")."""
    group_size: tuple[int, int, int] | None = None
    """Threads of a workgroup along x, y, z; None: the manifest's or the user's."""


@dataclass(frozen=True)
class Allocation:
    """Memory as a backend gives it."""

    handle: Any
    """For `free`, `map` and `export`."""
    address: int
    """The device address of the first byte."""
    memory: Memory | None = None
    """Where an import lives, if that is not Memory.SHARED."""


@dataclass(frozen=True)
class Progress:
    """A submission that has not ended."""

    records: bytes
    """Its records."""
    running_at: int
    """Offset in bytes of the record that runs; at the end or past it: none yet."""
    groups_done: int
    """Workgroups of that record that have ended."""
    groups_total: int
    """Workgroups that it has; 0: unknown, or no dispatch."""
    running_s: float
    """Seconds since that record began."""


class Backend(Protocol):
    """One open device. Any method may be called from any thread, with handles that are open.

    Handles are the backend's own: core keeps them and passes them back. A *record* is bytes as in
    native/include/sp_cmd.h. A *value* is a point on a queue's timeline: submissions get 1, 2, 3 and
    so on in their order, and each sees the results of those before it. Where an int below 0 may
    come back it is -errno: nothing is raised, core does that (errors.check). `/` marks methods that
    may be native functions; they are called by position.

    What a backend may have beside these members, one ability each, is in abilities.py.
    """

    info: DeviceInfo
    """Fixed once the device is open."""

    @staticmethod
    def discover(settings: Settings) -> Sequence[Found]:
        """What there is, usable or with a reason; quick, and raises nothing for what is absent."""

    @staticmethod
    def open(uri: str, settings: Settings) -> Backend:
        """The device of "scheme" or "scheme:which"; raises DeviceNotFound."""

    def alloc(self, nbytes: int, memory: Memory) -> Allocation:
        """`nbytes` (0 or more) zeroed bytes, 64-byte aligned; raises OutOfDeviceMemory."""

    def free(self, handle: Any) -> None:
        """End an Allocation, once; also after `close`. Nothing submitted uses it any more."""

    def map(self, handle: Any, nbytes: int) -> Any:
        """A writable object for memoryview() over the first `nbytes` bytes.

        It keeps the memory, past `free` too: numpy arrays hold it.
        """

    def wrap(self, pointer: int, nbytes: int, owner: object) -> Allocation:
        """Host memory at `pointer`, in place.

        `owner` is kept alive until `free`, and as long as what `map` gave of it.
        """

    def export(self, handle: Any) -> int:
        """A new file descriptor, the caller's to close; ValueError unless Memory.SHARED, or from
        `alloc_exportable` (abilities.py)."""

    def import_(self, fd: int, nbytes: int) -> Allocation:
        """The first `nbytes` (above 0) bytes of an exported descriptor, which stays the caller's.

        Raises ValueError when there are fewer, or they cannot be mapped; OSError.
        """

    def upload(self, queue: Any, address: int, data: memoryview) -> tuple[int, object]:
        """Copy `data` (bytes in C order) to the device, after what was submitted before.

        Returns (value, what core keeps alive until the value is reached, or None); the value is
        that of the newest submission where nothing had to be submitted, or -errno. `data` may
        change as soon as this returns. Raises OutOfDeviceMemory.
        """

    def download(self, queue: Any, address: int, out: memoryview) -> tuple[int, object]:
        """Copy from the device into `out` (writable bytes in C order); returns as `upload`.

        The bytes are there when the value is reached.
        """

    def copy_peer(self, queue: Any, dst: int, src: int, nbytes: int, peer: Backend) -> int:
        """Copy from address `src` on `peer`, of this same backend, to `dst` here: value or -errno.

        -EOPNOTSUPP: the devices have no way to one another, so core copies by way of the host.
        `queue` is of this device and knows nothing of the peer's: callers wait for its fences.
        """

    def load(self, spec: KernelSpec) -> Loaded:
        """Raises ImageError with the loader's words, ValueError for a plan that is not possible."""

    def unload(self, handle: Any) -> None:
        """End a kernel, once; also after `close`. Nothing submitted uses it any more."""

    def open_queue(self, timing: bool) -> Any:
        """A new queue at value 0; `timing`: `times` will be asked. Raises SparkleError.

        `submitted`, `settled`, `reached`, `wait` and `times` work as long as the handle is
        referenced, past `close_queue` too.
        """

    def close_queue(self, queue: Any, timeout_ns: int) -> int:
        """Take no more work, wait for what was submitted, end: 0 or -errno.

        -ETIMEDOUT after `timeout_ns` ns: something still runs; core calls again.
        """

    def queue_pointer(self, queue: Any) -> int:
        """What records carry that wait for this queue."""

    def check(self, record: bytes, nbytes: int, /) -> int:
        """0, or the -errno with which `launch` would refuse this record."""

    def epoch(self) -> int:
        """A number that `advance` raises: a record is handed in with what this was before it was
        packed."""

    def advance(self) -> int:
        """Raise the epoch and return it. Core does so when it has marked a buffer or kernel closed
        and before it asks for `settled` values: records packed earlier are then refused with
        -ESTALE, or counted in those values."""

    def launch(self, queue: Any, record: bytes, nbytes: int, epoch: int, /) -> int:
        """Submit one dispatch record, copied before this returns: its value, or -errno.

        -ESTALE: `epoch` has passed and nothing was submitted; core looks at its arguments again.
        Sizes are checked against the record (sp_signature_check) before memory is touched. Work
        that fails before this returns may give its -errno at once.
        """

    def prepare(self, queue: Any, record: bytes, epoch: int) -> Any:
        """A handle with a checked copy of a dispatch record for `run`; an int is -errno."""

    def run(self, prepared: Any, /) -> int:
        """Submit what was prepared, as often as one likes: value or -errno, as `launch`."""

    def submit(self, queue: Any, records: Any, nbytes: int, epoch: int, /) -> int:
        """Submit `nbytes` bytes of records as one, run in order: value or -errno.

        `records` is a cffi char pointer (NULL for no bytes), copied before this returns.
        """

    def submitted(self, queue: Any, /) -> int:
        """The newest value given out; never blocks."""

    def settled(self, queue: Any, /) -> int:
        """`submitted`, once no call is between its look at the epoch and its value.

        Finalizers ask this, which run anywhere: below such a call of the same thread, or while
        another thread has what such a call waits for. A backend that runs Python in between does
        not wait for it then, but returns -EAGAIN: core asks again.
        """

    def reached(self, queue: Any, /) -> int:
        """The value up to which everything has ended, well or not; never blocks."""

    def wait(self, queue: Any, value: int, timeout_ns: int, /) -> int:
        """Block until `value` is reached, at most `timeout_ns` ns (0: look and return).

        Returns 0, -ETIMEDOUT, or the -errno with which that submission ended. Leaves the GIL to
        others meanwhile; core asks for 0.1 s at a time, so that Ctrl-C is noticed. That counts as
        having told of a failure; `failure` (abilities.py) does not.
        """

    def times(self, queue: Any, value: int) -> tuple[int, int] | None:
        """(start, end) of a submission in ns of the device clock; None: not timed, or forgotten."""

    def describe(self, queue: Any, value: int) -> Progress | None:
        """Where a submission stands; None once it has ended."""

    def timestamp(self) -> int:
        """The device clock in ns, as timestamp records store it. Raises SparkleError: no clock."""

    def sensors(self) -> dict[str, float]:
        """What the device measures now, the unit in the name ("frequency_mhz"); may be empty."""

    def live_counts(self) -> dict[str, int]:
        """Native objects of the whole process by name, in numbers or, as "..._nbytes", bytes."""

    def close(self) -> None:
        """Let go of the device, once.

        A queue may still run work that nobody waited for: what it and its memory need stays, and
        `reached`, `close_queue`, `free` and `unload` may follow.
        """


class Waker(Protocol):
    """One wait of one thread; see Lanes.waker."""

    def set(self) -> None:
        """The waiting thread goes on, or will not wait."""

    def wait(self, until_s: float) -> None:
        """Return after `set`, or at `until_s` of the clock."""


class Lanes(Protocol):
    """A clock that jumps only when all threads wait that run beside one another: those of a program
    (mesh/lanes/runner.py).
    """

    def enter(self, n: int = 1) -> None:
        """`n` lanes run from now on; called before their threads start."""

    def here(self) -> None:
        """The calling thread is one of them."""

    def leave(self) -> None:
        """A lane ends, that of this thread or one that never began."""

    def waits(self) -> None:
        """The lane of this thread is about to wait for another one."""

    def wakes(self, n: int = 1) -> None:
        """`n` waiting lanes are about to be woken."""

    def outlives(self, thread: int) -> None:
        """The program of the lane of this thread (threading.get_ident) has ended without it: time
        does not pass for its sake.
        """

    def waker(self) -> Waker:
        """For a wait of the calling thread that another one, or a time, ends."""
