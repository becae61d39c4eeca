"""The backend protocol: the only contract between core and a kind of device.

Handles are opaque to core. Methods that return an int return a timeline value or -errno; core alone
raises from those. A plug-in registers a class with these methods under the entry-point group
`sparkle_drv.backends`; sparkle_drv.testing.suite judges it. `open` and `discover` are static.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sparkle_drv.types import DeviceInfo, Found, Memory, Resources, TilePlan

if TYPE_CHECKING:
    from collections.abc import Buffer as BufferLike  # type: ignore[attr-defined]  # 3.12
else:
    BufferLike = Any


@dataclass(frozen=True)
class Settings:
    """The environment as it was when the device was opened (core/settings.py reads it)."""

    home: str
    cpu_isa: str = ""
    threads: int = 0


@dataclass(frozen=True)
class KernelSpec:
    """What to load: a kernel of the manifest (`entry` in `manifest`), or a user's image.

    `native` is the cffi struct sp_signature, `args` the types it was made of; `plan` shapes a
    manifest kernel for one tile plan.
    """

    name: str
    entry: str
    native: Any
    manifest: Any = None
    path: str = ""
    image: bytes = b""
    plan: TilePlan | None = None
    allow_spirv: bool = False
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Loaded:
    """A loaded kernel. `pointer` is what dispatch records carry; `form` is "grid" or "routine".

    A kernel that was generated for one tile plan knows its grid: `groups` are sizes in its integer
    arguments (core/extent.py), as ("n/64", "m/64"), and `group_size` replaces the manifest's.
    """

    handle: Any
    pointer: int
    form: str
    resources: Resources
    groups: tuple[str, ...] = ()
    group_size: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Allocation:
    handle: Any
    address: int


@dataclass(frozen=True)
class Progress:
    """A submission that has not ended: its records and where it stands in them (`running_at` past
    the end: nowhere yet).
    """

    records: bytes
    running_at: int
    groups_done: int
    groups_total: int
    running_s: float


class Backend(Protocol):
    """Threads: every method may be called from any thread; the caller sees to it that handles are
    still open.

    Two more methods are optional, for devices that can say more than an errno: `refusal(record, rc)
    -> str`, why `check` did not take a dispatch, and `fault(queue, value) -> str`, how a submission
    failed; "" where they know nothing.
    """

    info: DeviceInfo

    @staticmethod
    def discover(settings: Settings) -> Sequence[Found]: ...
    @staticmethod
    def open(uri: str, settings: Settings) -> Backend: ...

    def alloc(self, nbytes: int, memory: Memory) -> Allocation: ...
    def free(self, handle: Any) -> None: ...
    def map(self, handle: Any, nbytes: int) -> Any: ...
    def wrap(self, pointer: int, nbytes: int, owner: object) -> Allocation: ...
    def export(self, handle: Any) -> int: ...
    def import_(self, fd: int, nbytes: int) -> Allocation: ...
    def upload(self, queue: Any, address: int, data: memoryview) -> tuple[int, object]: ...
    def download(self, queue: Any, address: int, out: memoryview) -> tuple[int, object]: ...
    def copy_peer(self, queue: Any, dst: int, src: int, nbytes: int, peer: Backend) -> int: ...

    def load(self, spec: KernelSpec) -> Loaded: ...
    def unload(self, handle: Any) -> None: ...

    def open_queue(self, timing: bool) -> Any: ...
    def close_queue(self, queue: Any, timeout_ns: int) -> int: ...
    def queue_pointer(self, queue: Any) -> int: ...
    def check(self, record: bytes, nbytes: int, /) -> int: ...
    def launch(self, queue: Any, record: bytes, nbytes: int, /) -> int: ...
    def prepare(self, queue: Any, record: bytes) -> Any: ...
    def run(self, prepared: Any, /) -> int: ...
    def submit(self, queue: Any, records: Any, nbytes: int, /) -> int: ...
    def submitted(self, queue: Any, /) -> int: ...
    def reached(self, queue: Any, /) -> int: ...
    def wait(self, queue: Any, value: int, timeout_ns: int, /) -> int: ...
    def times(self, queue: Any, value: int) -> tuple[int, int] | None: ...
    def describe(self, queue: Any, value: int) -> Progress | None: ...

    def timestamp(self) -> int: ...
    def sensors(self) -> dict[str, float]: ...
    def live_counts(self) -> dict[str, int]: ...
    def close(self) -> None: ...
