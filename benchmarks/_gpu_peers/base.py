"""The interface of a peer: a library that the GPU benchmark compares with this package.

A peer that lacks an ability does not override its method, which then raises NotImplementedError.
The peer's cell of the table stays empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[[], object]


class Peer:
    """One way to drive device 0. Methods are called in the order in which this class
    defines them.
    """

    def start(self) -> str:
        """Imports the library and returns its version. Raises ImportError if the library is not
        installed.
        """
        raise NotImplementedError

    def init(self) -> None:
        """Opens the device and a stream."""
        raise NotImplementedError

    def kernel(self, image: bytes, entry: str, types: str) -> Any:
        """Loads a kernel from PTX that ends in a zero byte.

        A peer that cannot load PTX makes the kernel in its own way. `types` is written as for
        `Device.kernel` of this package.
        """
        raise NotImplementedError

    def device(self, nbytes: int) -> Any:
        """Allocates device memory, which `free` frees."""
        raise NotImplementedError

    def free(self, memory: Any) -> None:
        """Frees memory that `device` allocated."""
        raise NotImplementedError

    def launch(self, kernel: Any, args: Sequence[Any]) -> Call:
        """Returns a function that launches `kernel` with one GPU thread, as users of the peer do.

        `args` are memory and numbers.
        """
        raise NotImplementedError

    def prepared(self, kernel: Any, args: Sequence[Any]) -> Call:
        """Returns a function that launches `kernel` with one GPU thread. The arguments are packed
        only once, before the function's first call.
        """
        raise NotImplementedError

    def sync(self) -> None:
        """Waits until all work of the stream has ended."""
        raise NotImplementedError

    def graph(self, kernel: Any, args: Sequence[Any], nodes: int) -> Call:
        """Returns a function that launches a graph: `nodes` launches of the kernel, one after the
        other.
        """
        raise NotImplementedError

    def host(self, nbytes: int, pinned: bool) -> Any:
        """Allocates host memory, page-locked if `pinned`."""
        raise NotImplementedError

    def h2d(self, device: Any, host: Any) -> Call:
        """Returns a function that copies all of `host` to `device`; `sync` waits for the copy."""
        raise NotImplementedError

    def d2h(self, host: Any, device: Any) -> Call:
        """Returns a function that copies all of `device` to `host`; `sync` waits for the copy."""
        raise NotImplementedError

    def d2d(self, to: Any, of: Any) -> Call:
        """Returns a function that copies `of` to `to`, both on the device."""
        raise NotImplementedError

    def load(self, image: bytes, entry: str) -> Call:
        """Returns a function that loads PTX and unloads it again."""
        raise NotImplementedError
