"""The peer numba-cuda, which compiles kernels from Python. These kernels do nothing, as in all
peers.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from _gpu_peers.base import Call, Peer


def _kernels() -> dict[int, Any]:
    def args0() -> None: ...

    def args4(a: Any, b: Any, c: Any, d: Any) -> None: ...

    def args16(
        a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any,
        i: Any, j: Any, k: Any, x: Any, m: Any, n: Any, o: Any, p: Any,
    ) -> None: ...  # fmt: skip

    return {0: args0, 4: args4, 16: args16}


class Numba(Peer):
    def start(self) -> str:
        self.cuda = import_module("numba.cuda")
        self.numpy = import_module("numpy")
        if not self.cuda.is_available():
            raise ImportError("numba.cuda finds no device")
        return str(getattr(self.cuda, "__version__", import_module("numba").__version__))

    def init(self) -> None:
        self.cuda.select_device(0)
        self.stream = self.cuda.stream()

    def kernel(self, image: bytes, entry: str, types: str) -> Any:
        scalars = {"f32": self.numpy.float32, "u32": self.numpy.uint32}
        kinds = [scalars.get(t) for t in types.split()]
        return self.cuda.jit(_kernels()[len(kinds)]), kinds

    def device(self, nbytes: int) -> Any:
        return self.cuda.device_array(nbytes, self.numpy.uint8)

    def free(self, memory: Any) -> None:
        pass  # Numba frees memory when the last reference goes

    def launch(self, kernel: Any, args: Sequence[Any]) -> Call:
        function, types = kernel
        values = [a if t is None else t(a) for a, t in zip(args, types, strict=True)]
        ready = function[1, 1, self.stream]
        return lambda: ready(*values)

    def sync(self) -> None:
        self.stream.synchronize()

    def host(self, nbytes: int, pinned: bool) -> Any:
        make = self.cuda.pinned_array if pinned else self.numpy.empty
        memory = make(nbytes, self.numpy.uint8)
        memory[:] = 1
        return memory

    def h2d(self, device: Any, host: Any) -> Call:
        return lambda: device.copy_to_device(host, stream=self.stream)

    def d2h(self, host: Any, device: Any) -> Call:
        return lambda: device.copy_to_host(host, stream=self.stream)

    def d2d(self, to: Any, of: Any) -> Call:
        return lambda: to.copy_to_device(of, stream=self.stream)


PEER = Numba
