"""native/hot: base classes of core's objects, and the launch over them.

It lies below core and names none of its classes: what is a Queue there is a base class here, and
core/queue.py says more. Fence is the class of core/fence.py.
"""

from collections.abc import Callable, Sized
from typing import Any, TypeVar

from typing_extensions import Self

T = TypeVar("T")

class StorageBase:
    device: Any

class PointerBase:
    @property
    def _storage(self) -> Any: ...
    @property
    def _elements(self) -> int: ...
    @property
    def _address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def _begin(self, storage: StorageBase, address: int, nbytes: int, elements: int, /) -> None: ...
    def _end(self) -> Any: ...

class KernelBase:
    _device: Any
    _packing: bytes

class DeviceBase:
    _epoch: int
    _calls: Table | None
    kept: dict[object, Any]
    """What layers above keep as long as the device lives (@private)."""

class CommandsBase:
    _bound: Prepared | None

class ConstantBase:
    _calls: Table | None

class Fence:
    """core/fence.py says what it has."""

class QueueBase:
    @property
    def _device(self) -> Any: ...
    def __new__(
        cls,
        device: DeviceBase,
        handle: int,
        pending: tuple[Sized, ...],
        keeping: tuple[Callable[[int, Any], None], Any, Any],
        /,
    ) -> Self: ...
    def launch(
        self,
        kernel: Any,
        /,
        *args: Any,
        groups: Any = None,
        group_size: Any = None,
        shared: int = 0,
    ) -> Any: ...
    def submit(self, commands: Any) -> Any: ...

class CallableBase:
    def _begin(
        self,
        function: Callable[..., Any],
        table: Table | None,
        meaning: tuple[tuple[str, ...], int, dict[str, Any]],
        /,
    ) -> None: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...

def direct(kind: type[T], /) -> type[T]: ...
def call_key(
    head: tuple[Any, ...], values: tuple[Any, ...], other: Callable[[Any], Any], /
) -> tuple[Any, ...]: ...

class Row:
    def __new__(cls, values: tuple[Any, ...], fixed: tuple[Any, ...], /) -> Row | None: ...  # type: ignore[misc]

class Table:
    def __init__(self, sets: int, /) -> None: ...
    def again(self, site: object, device: DeviceBase, /, *values: Any) -> Any: ...
    def submit(self, site: object, device: DeviceBase, epoch: int, /, *values: Any) -> Any: ...
    def put(self, row: Row, /) -> None: ...

class Prepared:
    again: Callable[[Prepared, int], int]
    run: int
    @property
    def kept(self) -> Any: ...
    @property
    def prepared(self) -> int: ...
    def go(self) -> int: ...
    def take(self, kept: object, prepared: int, /) -> None: ...

def result(empty: Callable[..., Any], shape: Any, dtype: Any, nbytes: int, /) -> Any: ...
def limit_blocks(nbytes: int, first: bool, /) -> None: ...
def release_blocks() -> None: ...
def blocks() -> tuple[int, int]: ...
def know_numpy(table: Any, /) -> bool: ...
def pack(
    device: Any, kernel: Any, args: tuple[Any, ...], groups: Any, group_size: Any, shared: Any, /
) -> bytes | tuple[int, int, int]: ...
def whose(pointer: PointerBase, device: object, /) -> int: ...
def judge(kernel: KernelBase, record: bytes, /) -> tuple[int, int, int] | None: ...
def plain(
    kernel: Any, args: tuple[Any, ...], groups: Any, group_size: Any, shared: Any, /
) -> tuple[tuple[Any, ...], tuple[Any, Any, Any]]: ...
def number(code: str, given: Any, /) -> Any: ...
