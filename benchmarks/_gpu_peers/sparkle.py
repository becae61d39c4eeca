"""The peer that is this package: sparkle_drv on cuda:0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from _gpu_peers import images
from _gpu_peers.base import Call, Peer


class Sparkle(Peer):
    def start(self) -> str:
        import sparkle_drv

        self.sp = sparkle_drv
        return str(sparkle_drv.__version__)

    def init(self) -> None:
        self.dev = self.sp.open("cuda:0")
        self.queue = self.dev.default_queue

    def kernel(self, image: bytes, entry: str, types: str) -> Any:
        return self.dev.kernel(image=image, entry=entry, args=types, group_size=1)

    def device(self, nbytes: int) -> Any:
        return self.dev.buffer(nbytes)

    def free(self, memory: Any) -> None:
        memory.close()

    def launch(self, kernel: Any, args: Sequence[Any]) -> Call:
        launch = self.queue.launch
        match list(args):  # launches without *args, as users write them
            case []:
                return lambda: launch(kernel, groups=1)
            case [a, b, c, d]:
                return lambda: launch(kernel, a, b, c, d, groups=1)
        return lambda: launch(kernel, *args, groups=1)

    def prepared(self, kernel: Any, args: Sequence[Any]) -> Call:
        return self.queue.prepare(kernel, *args, groups=1)

    def sync(self) -> None:
        self.queue.fence(self.queue.submitted).wait()

    def graph(self, kernel: Any, args: Sequence[Any], nodes: int) -> Call:
        commands = self.sp.Commands()
        for _ in range(nodes):
            commands.dispatch(kernel, *args, groups=1)
        return lambda: self.queue.submit(commands)

    def host(self, nbytes: int, pinned: bool) -> Any:
        import numpy as np

        if not pinned:
            return np.ones(nbytes, np.uint8)
        return self.dev.buffer(nbytes, self.sp.Memory.HOST)

    def _copy(self, to: Any, of: Any) -> Call:
        commands = self.sp.Commands().copy(to, of)
        return lambda: self.queue.submit(commands)

    def h2d(self, device: Any, host: Any) -> Call:
        if isinstance(host, self.sp.Buffer):
            return self._copy(device, host)
        return lambda: self.queue.write(device, host)

    def d2h(self, host: Any, device: Any) -> Call:
        if isinstance(host, self.sp.Buffer):
            return self._copy(host, device)
        return lambda: self.queue.read(device, host)

    def d2d(self, to: Any, of: Any) -> Call:
        return self._copy(to, of)

    def load(self, image: bytes, entry: str) -> Call:
        args = images.JIT_TYPES
        return lambda: self.dev.kernel(image=image, entry=entry, args=args).close()


PEER = Sparkle
