"""native/python: base classes of core's objects, and the launch over them."""

from collections.abc import Callable
from typing import Any

from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.queue import Queue

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

class Prepared:
    kept: Any
    again: Callable[[Prepared, int], int]
    run: int
    prepared: int
    def go(self) -> int: ...
