"""native/hot: base classes of core's objects, and the launch over them.

It lies below core and names none of its classes: what is a Queue or a Fence there is a base class
here, and core/queue.py and core/fence.py say more.
"""

from collections.abc import Callable, Sized
from typing import Any, TypeVar

from typing_extensions import Self

T = TypeVar("T")

class StorageBase:
    device: Any

class PointerBase:
    _storage: Any
    _elements: int
    _address: int
    nbytes: int

class KernelBase:
    _device: Any
    _heads: dict[Any, bytes]
    _shapes: dict[Any, bytes]
    _grids: dict[Any, bytes]
    _sizes: bytes
    _plan: bytes

class DeviceBase:
    _epoch: int
    kept: dict[object, Any]
    """What layers above keep as long as the device lives (@private)."""

class ConstantBase:
    _products: Products | None
    _convolutions: Convolutions | None
    _rows: int
    _columns: int

class FenceBase:
    def __init__(self, queue: QueueBase, value: int, /) -> None: ...
    @property
    def queue(self) -> Any: ...
    @property
    def value(self) -> int: ...
    def wait(self, timeout_s: float = ...) -> Self: ...

class QueueBase:
    _device: Any
    _fence_type: type
    _handle_at: int
    _pending: tuple[Sized, ...]
    _keeping: object
    def launch(
        self,
        kernel: Any,
        /,
        *args: Any,
        groups: Any = None,
        group_size: Any = None,
        shared: int = 0,
    ) -> Any: ...

class Products:
    queue: Any
    def __init__(self, queue: QueueBase, count: int, /) -> None: ...
    def call(self, a: Any, b: Any, out: Any, bias: Any, act: int, /) -> bool: ...
    def put(
        self,
        kind: int,
        m: int,
        n: int,
        k: int,
        act: int,
        kernel: KernelBase,
        head: bytes,
        blob: Any = None,
        /,
    ) -> None: ...

class Convolutions:
    queue: Any
    def __init__(self, queue: QueueBase, empty: Any, sets: int, /) -> None: ...
    def call(self, *args: Any) -> Any: ...
    def put(
        self,
        shapes: bytes,
        scalars: bytes,
        parameters: tuple[Any, ...],
        out_shape: tuple[int, ...],
        kernel: KernelBase,
        head: bytes,
        blob: Any,
        /,
    ) -> bool: ...

class Planned:
    def __init__(
        self,
        queue: QueueBase,
        kernel: KernelBase,
        head: bytes,
        scalars: bytes,
        w: Any,
        bias: Any,
        /,
    ) -> None: ...

class PlanBase:
    _short_way: Products | Planned | None
    def __call__(self, *operands: Any, **named: Any) -> Any: ...

def direct(kind: type[T], /) -> type[T]: ...
def op(
    name: str,
    kind: type[T],
    key: str,
    device: type[DeviceBase],
    more: tuple[object, object],
    signature: tuple[tuple[str, ...], int, dict[str, Any]],
    /,
) -> type[T]: ...

class Prepared:
    again: Callable[[Prepared, int], int]
    run: int
    @property
    def kept(self) -> Any: ...
    @property
    def prepared(self) -> int: ...
    def go(self) -> int: ...
    def take(self, kept: object, prepared: int, /) -> None: ...

class MapCall:
    def run(self, args: tuple[Any, ...], names: dict[str, Any], out: Any) -> Any: ...

def map_call(plan: bytes, kept: tuple[Any, ...]) -> MapCall: ...
def result(empty: Callable[..., Any], shape: Any, dtype: Any, nbytes: int, /) -> Any: ...
def know_memory(table: Any, /) -> bool: ...
def limit_blocks(nbytes: int, /) -> None: ...
def begin_blocks(nbytes: int, /) -> None: ...
def most_blocks() -> int: ...
def release_blocks() -> None: ...
def idle_blocks() -> int: ...
def array_fields(array: Any, /) -> tuple[int, tuple[int, ...], tuple[int, ...], Any, int]: ...
def know_arrays(kind: type | None, float32: Any, float64: Any, /) -> None: ...
