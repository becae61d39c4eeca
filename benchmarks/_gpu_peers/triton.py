"""The peer Triton, with torch for memory and streams. Its kernels are compiled from Python and do
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from _gpu_peers.base import Call, Peer


def args4(a: Any, b: Any, c: Any, d: Any) -> None:
    pass


class Triton(Peer):
    def start(self) -> str:
        self.triton = import_module("triton")
        self.torch = import_module("torch")
        if not self.torch.cuda.is_available():
            raise ImportError("torch.cuda.is_available() is False: torch can use no CUDA device")
        return str(self.triton.__version__)

    def init(self) -> None:
        self.stream = self.torch.cuda.Stream(0)
        self.torch.cuda.set_stream(self.stream)
        self.one = self.torch.ones(1, device="cuda:0")

    def kernel(self, image: bytes, entry: str, types: str) -> Any:
        if len(types.split()) != 4:
            raise NotImplementedError
        return self.triton.jit(args4)

    def device(self, nbytes: int) -> Any:
        return self.torch.empty(nbytes, dtype=self.torch.uint8, device="cuda:0")

    def free(self, memory: Any) -> None:
        pass  # torch returns memory to its pool when the last reference goes

    def launch(self, kernel: Any, args: Sequence[Any]) -> Call:
        ready = kernel[(1,)]
        return lambda: ready(*args)

    def sync(self) -> None:
        self.stream.synchronize()


PEER = Triton
