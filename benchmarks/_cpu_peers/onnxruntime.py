"""The peer ONNX Runtime: a model of one node. The model contains the weights, which are prepacked
when the session is made. Input and output are bound before the timing. A product has a second way,
with both matrices as inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from .base import Named, Operands, Peer, Way
from .cases import Case, Conv, Gemm

# versions of ONNX's operator set and file format, old enough for any recent release to read
OPSET, IR = 17, 8


class OnnxRuntime(Peer):
    def start(self, threads: int) -> str:
        self.np, self.onnx = import_module("numpy"), import_module("onnx")
        self.ort = import_module("onnxruntime")
        self.options = self.ort.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3
        return str(self.ort.__version__)

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        of = case.of
        if isinstance(of, Gemm):
            return self._gemm(of, operands)
        return self._conv(of, operands) if isinstance(of, Conv) else []

    def _gemm(self, of: Gemm, operands: Operands) -> Iterable[Named]:
        node = self.onnx.helper.make_node("MatMul", ["a", "b"], ["y"])
        a, b, shape = operands["a"], operands["b"], (of.m, of.n)
        return [
            ("packed", lambda: self._way(node, {"a": a}, {"b": b}, shape)),
            ("MatMul", lambda: self._way(node, {"a": a, "b": b}, {}, shape)),
        ]

    def _conv(self, of: Conv, operands: Operands) -> Iterable[Named]:
        node = self.onnx.helper.make_node(
            "Conv", ["x", "w"], ["y"], kernel_shape=[of.k] * 2, strides=[of.stride] * 2,
            pads=[of.padding] * 4, group=of.groups,
        )  # fmt: skip
        shape = (of.n, of.oc, of.out, of.out)
        return [
            ("Conv", lambda: self._way(node, {"x": operands["x"]}, {"w": operands["w"]}, shape))
        ]

    def _way(
        self, node: Any, inputs: dict[str, Any], weights: dict[str, Any], shape: Sequence[int]
    ) -> Way:
        helper = self.onnx.helper
        dtype = next(iter(inputs.values())).dtype
        kind = helper.np_dtype_to_tensor_dtype(dtype)
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            [node], "one", [info(name, kind, list(x.shape)) for name, x in inputs.items()],
            [info("y", kind, list(shape))],
            [self.onnx.numpy_helper.from_array(w, name) for name, w in weights.items()],
        )  # fmt: skip
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR)
        session = self.ort.InferenceSession(
            model.SerializeToString(), self.options, providers=["CPUExecutionProvider"]
        )
        y = self.np.full(shape, self.np.nan, dtype)
        value = self.ort.OrtValue.ortvalue_from_numpy
        held = {name: value(x) for name, x in inputs.items()}
        binding, out = session.io_binding(), value(y)
        for name, x in held.items():
            binding.bind_ortvalue_input(name, x)
        binding.bind_ortvalue_output("y", out)
        names = {"run": session.run_with_iobinding, "binding": binding, "held": (held, session)}
        return Way("run(binding)", names, out.numpy)


PEER = OnnxRuntime
