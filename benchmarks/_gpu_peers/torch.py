"""The peer PyTorch. It loads no PTX; its launch is an in-place addition to one element,
`x.add_(1)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from _gpu_peers.base import Call, Peer


class Torch(Peer):
    def start(self) -> str:
        self.torch = import_module("torch")
        if not self.torch.cuda.is_available():
            raise ImportError("torch.cuda.is_available() is False: torch can use no CUDA device")
        return str(self.torch.__version__)

    def init(self) -> None:
        self.stream = self.torch.cuda.Stream(0)
        self.torch.cuda.set_stream(self.stream)
        self.one = self.torch.ones(1, device="cuda:0")

    def kernel(self, image: bytes, entry: str, types: str) -> Any:
        if types.split()[2:3] != ["f32"] or len(types.split()) != 4:
            # torch loads no PTX. Its `x.add_(1)` is compared only with the PTX kernel that has four
            # arguments.
            raise NotImplementedError
        return self.one

    def device(self, nbytes: int) -> Any:
        return self.torch.empty(nbytes, dtype=self.torch.uint8, device="cuda:0")

    def free(self, memory: Any) -> None:
        pass  # torch returns memory to its pool when the last reference goes

    def launch(self, kernel: Any, args: Sequence[Any]) -> Call:
        return lambda: kernel.add_(1)

    def sync(self) -> None:
        self.stream.synchronize()

    def graph(self, kernel: Any, args: Sequence[Any], nodes: int) -> Call:
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            for _ in range(nodes):
                kernel.add_(1)
        return lambda: graph.replay()

    def host(self, nbytes: int, pinned: bool) -> Any:
        return self.torch.ones(nbytes, dtype=self.torch.uint8, pin_memory=pinned)

    def h2d(self, device: Any, host: Any) -> Call:
        return lambda: device.copy_(host, non_blocking=True)

    def d2h(self, host: Any, device: Any) -> Call:
        return lambda: host.copy_(device, non_blocking=True)

    def d2d(self, to: Any, of: Any) -> Call:
        return lambda: to.copy_(of, non_blocking=True)


PEER = Torch
