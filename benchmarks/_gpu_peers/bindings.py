"""The peer cuda.bindings: NVIDIA's own bindings of the driver interface."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from _gpu_peers.base import Call, Peer

_C = {"f32": ctypes.c_float, "u32": ctypes.c_uint32}


class Bindings(Peer):
    def start(self) -> str:
        self.cu = import_module("cuda.bindings.driver")
        return str(import_module("cuda.bindings").__version__)

    def _of(self, answer: Any) -> Any:
        code, *rest = answer
        if int(code):
            raise RuntimeError(f"{code!r}")
        return rest[0] if rest else None

    def init(self) -> None:
        cu, of = self.cu, self._of
        of(cu.cuInit(0))
        self.context = of(cu.cuDevicePrimaryCtxRetain(of(cu.cuDeviceGet(0))))
        of(cu.cuCtxSetCurrent(self.context))
        self.stream = of(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.keep: list[Any] = []

    def kernel(self, image: bytes, entry: str, types: str) -> Any:
        loaded = self._of(self.cu.cuModuleLoadData(image))
        function = self._of(self.cu.cuModuleGetFunction(loaded, entry.encode()))
        return function, [None if t.endswith("*") else _C[t] for t in types.split()]

    def device(self, nbytes: int) -> Any:
        return nbytes, self._of(self.cu.cuMemAlloc(nbytes))

    def free(self, memory: Any) -> None:
        self._of(self.cu.cuMemFree(memory[1]))

    def launch(self, kernel: Any, args: Sequence[Any]) -> Call:
        function, types = kernel
        values = tuple(a[1] if isinstance(a, tuple) else a for a in args)
        cu, stream, kinds = self.cu, self.stream, tuple(types)

        def go() -> None:
            (code,) = cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (values, kinds), 0)
            if code:
                raise RuntimeError(f"{code!r}")

        return go

    def prepared(self, kernel: Any, args: Sequence[Any]) -> Call:
        function, pointers = kernel[0], self._packed(kernel, args)
        cu, stream = self.cu, self.stream
        return lambda: cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, pointers, 0)

    def _packed(self, kernel: Any, args: Sequence[Any]) -> int:
        """Returns the address of the array of pointers to arguments that the driver's launch
        expects.
        """
        values = [
            ctypes.c_uint64(int(a[1])) if kind is None else kind(a)
            for a, kind in zip(args, kernel[1], strict=True)
        ]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
        self.keep += [values, pointers]
        return ctypes.addressof(pointers)

    def sync(self) -> None:
        self._of(self.cu.cuStreamSynchronize(self.stream))

    def graph(self, kernel: Any, args: Sequence[Any], nodes: int) -> Call:
        cu, of = self.cu, self._of
        graph = of(cu.cuGraphCreate(0))
        node = cu.CUDA_KERNEL_NODE_PARAMS()
        node.func = kernel[0]
        for axis in ("X", "Y", "Z"):
            setattr(node, f"gridDim{axis}", 1)
            setattr(node, f"blockDim{axis}", 1)
        node.kernelParams = self._packed(kernel, args)
        last: list[Any] = []
        for _ in range(nodes):
            last = [of(cu.cuGraphAddKernelNode(graph, last or None, len(last), node))]
        ready = of(cu.cuGraphInstantiate(graph, 0))
        self.keep += [graph, node]
        return lambda: cu.cuGraphLaunch(ready, self.stream)

    def host(self, nbytes: int, pinned: bool) -> Any:
        if pinned:
            return int(self._of(self.cu.cuMemHostAlloc(nbytes, 0))), nbytes
        memory = (ctypes.c_uint8 * nbytes)()
        ctypes.memset(memory, 1, nbytes)
        self.keep.append(memory)
        return ctypes.addressof(memory), nbytes

    def h2d(self, device: Any, host: Any) -> Call:
        return lambda: self._of(self.cu.cuMemcpyHtoDAsync(device[1], host[0], host[1], self.stream))

    def d2h(self, host: Any, device: Any) -> Call:
        return lambda: self._of(self.cu.cuMemcpyDtoHAsync(host[0], device[1], host[1], self.stream))

    def d2d(self, to: Any, of: Any) -> Call:
        return lambda: self._of(self.cu.cuMemcpyDtoDAsync(to[1], of[1], of[0], self.stream))

    def load(self, image: bytes, entry: str) -> Call:
        def once() -> None:
            loaded = self._of(self.cu.cuModuleLoadData(image))
            self._of(self.cu.cuModuleGetFunction(loaded, entry.encode()))
            self._of(self.cu.cuModuleUnload(loaded))

        return once


PEER = Bindings
