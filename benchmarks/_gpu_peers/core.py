"""The peer cuda.core: NVIDIA's Pythonic layer over cuda.bindings."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from _gpu_peers.base import Call, Peer


class Core(Peer):
    def start(self) -> str:
        package = import_module("cuda.core")
        try:
            self.core = import_module("cuda.core.experimental")
        except ImportError:
            self.core = package
        self.numpy = import_module("numpy")
        return str(package.__version__)

    def init(self) -> None:
        self.gpu = self.core.Device(0)
        self.gpu.set_current()
        self.stream = self.gpu.create_stream()
        self.config = self.core.LaunchConfig(grid=1, block=1)

    def kernel(self, image: bytes, entry: str, types: str) -> Any:
        code = self.core.ObjectCode.from_ptx(image.rstrip(b"\0"))
        scalars = {"f32": self.numpy.float32, "u32": self.numpy.uint32}
        return code.get_kernel(entry), [scalars.get(t) for t in types.split()]

    def device(self, nbytes: int) -> Any:
        return self.gpu.allocate(nbytes, stream=self.stream)

    def free(self, memory: Any) -> None:
        memory.close(self.stream)

    def launch(self, kernel: Any, args: Sequence[Any]) -> Call:
        function, types = kernel
        values = [a if t is None else t(a) for a, t in zip(args, types, strict=True)]
        launch, stream, config = self.core.launch, self.stream, self.config
        return lambda: launch(stream, config, function, *values)

    def sync(self) -> None:
        self.stream.sync()

    def d2d(self, to: Any, of: Any) -> Call:
        return lambda: to.copy_from(of, stream=self.stream)

    def load(self, image: bytes, entry: str) -> Call:
        text = image.rstrip(b"\0")
        return lambda: self.core.ObjectCode.from_ptx(text).get_kernel(entry)


PEER = Core
