"""The interface of a peer. A missing ability stays NotImplementedError: its cell is empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[[], object]


class Peer:
    """One way to drive device 0. Methods are called in the order of this class."""

    def start(self) -> str:
        """Imports what it needs. Returns its version. ImportError: it is absent."""
        raise NotImplementedError

    def init(self) -> None:
        """Opens the device and a stream."""
        raise NotImplementedError

    def kernel(self, image: bytes, entry: str, types: str) -> Any:
        """Loads PTX, which ends in a zero byte, or makes the nearest equivalent. `types` as in
        `Device.kernel` of this package."""
        raise NotImplementedError

    def device(self, nbytes: int) -> Any:
        """Device memory; `free` ends it."""
        raise NotImplementedError

    def free(self, memory: Any) -> None:
        """Memory of `device`."""
        raise NotImplementedError

    def launch(self, kernel: Any, args: Sequence[Any]) -> Call:
        """One launch of one thread per call, as its users write it. `args`: memory, numbers."""
        raise NotImplementedError

    def prepared(self, kernel: Any, args: Sequence[Any]) -> Call:
        """A launch whose arguments have been packed before."""
        raise NotImplementedError

    def sync(self) -> None:
        """Waits for the stream."""
        raise NotImplementedError

    def graph(self, kernel: Any, args: Sequence[Any], nodes: int) -> Call:
        """One launch per call of a graph that has `nodes` launches in a row."""
        raise NotImplementedError

    def host(self, nbytes: int, pinned: bool) -> Any:
        """Host memory."""
        raise NotImplementedError

    def h2d(self, device: Any, host: Any) -> Call:
        """A copy of all of `host` to the device; `sync` waits for it."""
        raise NotImplementedError

    def d2h(self, host: Any, device: Any) -> Call:
        """The other direction."""
        raise NotImplementedError

    def d2d(self, to: Any, of: Any) -> Call:
        """A copy on the device."""
        raise NotImplementedError

    def load(self, image: bytes, entry: str) -> Call:
        """Loads PTX and unloads it, in each call."""
        raise NotImplementedError
