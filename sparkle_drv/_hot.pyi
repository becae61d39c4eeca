"""native/python: base classes of core's objects, and the launch over them."""

from collections.abc import Callable
from typing import Any

from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.queue import Queue

class StorageBase:
    device: Any
    version: int

class PointerBase:
    _storage: Any
    _elements: int
    _address: int
    nbytes: int

class KernelBase:
    _device: Any
    _heads: dict[Any, bytes]
    _plan: bytes

class FenceBase:
    queue: Queue
    value: int

class QueueBase:
    _device: Device
    _fence_type: type
    _launch_at: int
    _handle_at: int
    def launch(
        self,
        kernel: Kernel,
        /,
        *args: Any,
        groups: Any = None,
        group_size: Any = None,
        shared: int = 0,
    ) -> Fence: ...

class Products:
    queue: Queue
    def __init__(
        self, queue: Queue, weights: dict[int, Any], reached: int, submitted: int, count: int, /
    ) -> None: ...
    def call(self, a: Any, b: Any, out: Any, /) -> bool: ...
    def fenced(self, a: Any, b: Any, out: Any, /) -> Fence | None: ...
    def put(
        self,
        kind: int,
        m: int,
        n: int,
        k: int,
        act: int,
        kernel: Kernel,
        head: bytes,
        wants_weights: bool,
        blob: Any = None,
        owner: Any = None,
        /,
    ) -> None: ...

class Convolutions:
    queue: Queue
    def __init__(
        self, queue: Queue, weights: dict[int, Any], empty: Any, wait: int, sets: int, /
    ) -> None: ...
    def call(self, *args: Any) -> Any: ...
    def put(
        self,
        shapes: bytes,
        scalars: bytes,
        parameters: tuple[Any, ...],
        out_shape: tuple[int, ...],
        kernel: Kernel,
        head: bytes,
        packs: bool,
        blob: Any,
        owner: Any,
        /,
    ) -> bool: ...

class Prepared:
    kept: Any
    again: Callable[[Prepared, int], int]
    run: int
    prepared: int
    def go(self) -> int: ...

class MapCall:
    def run(self, args: tuple[Any, ...], names: dict[str, Any], out: Any) -> Any: ...

def map_call(plan: bytes, kept: tuple[Any, ...]) -> MapCall: ...
def array_fields(array: Any, /) -> tuple[int, tuple[int, ...], tuple[int, ...], Any, int]: ...
def know_arrays(kind: type | None, float32: Any, float64: Any, /) -> None: ...
