"""The peer CuPy: RawModule, CuPy's memory pool, its streams and captured graphs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from _gpu_peers.base import Call, Peer


class Cupy(Peer):
    def start(self) -> str:
        self.cp = import_module("cupy")
        self.numpy = import_module("numpy")
        return str(self.cp.__version__)

    def init(self) -> None:
        self.cp.cuda.Device(0).use()
        self.stream = self.cp.cuda.Stream(non_blocking=True)
        self.stream.use()

    def _module(self, image: bytes) -> Any:
        handle, path = tempfile.mkstemp(suffix=".ptx")
        with os.fdopen(handle, "wb") as file:
            file.write(image.rstrip(b"\0"))
        try:
            loaded = self.cp.RawModule(path=path)
            loaded.compile()
        finally:
            os.unlink(path)
        return loaded

    def kernel(self, image: bytes, entry: str, types: str) -> Any:
        scalars = {"f32": self.numpy.float32, "u32": self.numpy.uint32}
        loaded = self._module(image)
        return loaded.get_function(entry), [scalars.get(t) for t in types.split()]

    def device(self, nbytes: int) -> Any:
        return self.cp.empty(nbytes, self.cp.uint8)

    def free(self, memory: Any) -> None:
        pass  # CuPy returns memory to the pool when the last reference goes

    def launch(self, kernel: Any, args: Sequence[Any]) -> Call:
        function, types = kernel
        values = tuple(a if t is None else t(a) for a, t in zip(args, types, strict=True))
        return lambda: function((1,), (1,), values)

    def sync(self) -> None:
        self.stream.synchronize()

    def graph(self, kernel: Any, args: Sequence[Any], nodes: int) -> Call:
        launch = self.launch(kernel, args)
        self.stream.begin_capture()
        for _ in range(nodes):
            launch()
        graph = self.stream.end_capture()
        return lambda: graph.launch(self.stream)

    def host(self, nbytes: int, pinned: bool) -> Any:
        if not pinned:
            return self.numpy.ones(nbytes, self.numpy.uint8)
        memory = self.cp.cuda.alloc_pinned_memory(nbytes)
        return self.numpy.frombuffer(memory, self.numpy.uint8, nbytes)

    def h2d(self, device: Any, host: Any) -> Call:
        return lambda: device.set(host, stream=self.stream)

    def d2h(self, host: Any, device: Any) -> Call:
        return lambda: device.get(stream=self.stream, out=host, blocking=False)

    def d2d(self, to: Any, of: Any) -> Call:
        return lambda: to.data.copy_from_device_async(of.data, of.nbytes, self.stream)

    def load(self, image: bytes, entry: str) -> Call:
        return lambda: self._module(image).get_function(entry)


PEER = Cupy
