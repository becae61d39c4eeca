"""The peer OpenVINO: a compiled model of one operation that contains the weights. It runs in
latency mode and in float32, because the default on some CPUs is bfloat16. Input and output are the
request's own tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from .base import Named, Operands, Peer, Way
from .cases import SCALAR, Case, Conv, Gemm, Map


class OpenVino(Peer):
    def start(self, threads: int) -> str:
        self.np, self.ov = import_module("numpy"), import_module("openvino")
        self.ops = import_module("openvino.opset13")
        self.core = self.ov.Core()
        self.config = {
            "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(threads), "ENABLE_CPU_PINNING": "NO",
        }  # fmt: skip
        return str(self.ov.__version__)

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        of = case.of
        if isinstance(of, Gemm):
            if of.dtype == "float64":
                return []  # OpenVINO always computes in float32, so it cannot be timed in float64
            return [("MatMul", lambda: self._gemm(operands))]
        if isinstance(of, Conv):
            return [("Convolution", lambda: self._conv(of, operands))]
        return [("fused", lambda: self._map(of, operands))]

    def _input(self, x: Any, name: str) -> Any:
        return self.ops.parameter(list(x.shape), self.np.float32, name=name)

    def _gemm(self, operands: Operands) -> Way:
        a, b = operands["a"], operands["b"]
        given = self._input(a, "a")
        y = self.ops.matmul(given, self.ops.constant(b), False, False)
        return self._way(y, [given], [a])

    def _conv(self, of: Conv, operands: Operands) -> Way:
        x, w = operands["x"], operands["w"]
        given = self._input(x, "x")
        strides, pads, ones = [of.stride] * 2, [of.padding] * 2, [1, 1]
        if of.groups == 1:
            y = self.ops.convolution(given, self.ops.constant(w), strides, pads, pads, ones)
        else:
            grouped = w.reshape(of.groups, of.oc // of.groups, *w.shape[1:])
            weights = self.ops.constant(grouped)
            y = self.ops.group_convolution(given, weights, strides, pads, pads, ones)
        return self._way(y, [given], [x])

    def _map(self, of: Map, operands: Operands) -> Way:
        ops = self.ops
        given = {name: self._input(operands[name], name) for name in of.arrays}
        x = given["x"]
        y: Any = x
        if of.expression == "copy":
            y = ops.multiply(x, ops.constant(self.np.float32(1)))
        else:
            a = ops.constant(self.np.float32(SCALAR))
            y = ops.add(ops.multiply(x, a), given["y"])
            if of.expression == "four":
                y = ops.subtract(ops.multiply(y, given["z"]), x)
            else:
                bell = ops.exp(ops.multiply(ops.negative(x), x))
                y = ops.multiply(ops.tanh(y), bell)
        return self._way(y, list(given.values()), [operands[name] for name in given])

    def _way(self, y: Any, parameters: list[Any], arrays: list[Any]) -> Way:
        compiled = self.core.compile_model(self.ov.Model([y], parameters), "CPU", self.config)
        request = compiled.create_infer_request()
        for at, array in enumerate(arrays):
            request.get_input_tensor(at).data[...] = array
        names = {"infer": request.infer, "held": (compiled, request)}
        return Way("infer(share_outputs=True)", names, lambda: request.get_output_tensor(0).data)


PEER = OpenVino
