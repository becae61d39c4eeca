"""The peer PyTorch on the CPU: plain, channels_last, and weights prepacked for oneDNN in two ways,
`packed` and `blocked`. `packed` does what a frozen compiled model does. In `blocked`, the images
have oneDNN's own layout, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from .base import Named, Operands, Peer, Way
from .cases import SCALAR, Case, Conv, Gemm, Map

STATEMENTS = {
    "copy": "out.copy_(x)",
    "four": "torch.add(y, x, alpha=a, out=out); out.mul_(z); out.sub_(x)",
    "transcendental": "torch.add(y, x, alpha=a, out=out); out.tanh_(); torch.mul(x, x, out=t);"
    " t.neg_(); t.exp_(); out.mul_(t)",
}


class Torch(Peer):
    def start(self, threads: int) -> str:
        self.torch = import_module("torch")
        self.torch.set_num_threads(threads)
        self.torch.set_num_interop_threads(1)
        # Inference mode stays on until this process ends, so that torch records no gradients.
        self._mode = self.torch.inference_mode()
        self._mode.__enter__()
        return str(self.torch.__version__)

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        given = {name: self.torch.from_numpy(array) for name, array in operands.items()}
        of = case.of
        if isinstance(of, Gemm):
            return self._gemm(of, given)
        if isinstance(of, Conv):
            return self._conv(of, given)
        return self._map(of, given)

    def _kept(self, statement: str, names: dict[str, Any]) -> Way:
        """Returns a `Way` that runs `statement` and keeps the tensor that it yields. The `result()`
        of the `Way` converts this tensor to a dense numpy array in the plain layout.
        """
        place: dict[str, Any] = {"y": [None], **names}

        def numpy() -> Any:
            y = place["y"][0]
            return (y.to_dense() if y.is_mkldnn else y).contiguous().numpy()

        return Way(f"y[0] = {statement}", place, numpy)

    def _gemm(self, of: Gemm, given: dict[str, Any]) -> Iterable[Named]:
        torch, a, b = self.torch, given["a"], given["b"]

        def mm() -> Way:
            c = torch.full((of.m, of.n), float("nan"), dtype=a.dtype)
            names = {"mm": torch.mm, "a": a, "b": b, "c": c}
            return Way("mm(a, b, out=c)", names, c.numpy)

        def packed() -> Way:
            ops = torch.ops.mkldnn
            w = ops._reorder_linear_weight(b.t().contiguous(), of.m)
            names = {"linear": ops._linear_pointwise, "a": a, "w": w}
            return self._kept("linear(a, w, None, 'none', [], '')", names)

        return [("mm", mm)] if of.dtype == "float64" else [("mm", mm), ("packed", packed)]

    def _conv(self, of: Conv, given: dict[str, Any]) -> Iterable[Named]:
        torch, x, w = self.torch, given["x"], given["w"]
        last = torch.channels_last
        options = f"stride={of.stride}, padding={of.padding}, groups={of.groups}"
        pad, stride, dilation = [of.padding] * 2, [of.stride] * 2, [1, 1]

        def plain(x: Any, w: Any) -> Way:
            names = {"conv2d": torch.nn.functional.conv2d, "x": x, "w": w}
            return self._kept(f"conv2d(x, w, None, {options})", names)

        def across() -> Way:
            return plain(x.contiguous(memory_format=last), w.contiguous(memory_format=last))

        def reordered() -> Any:
            reorder = torch.ops.mkldnn._reorder_convolution_weight
            return reorder(w, pad, stride, dilation, of.groups, list(x.shape))

        def packed() -> Way:
            names = {
                "conv": torch.ops.mkldnn._convolution_pointwise,
                "x": x.contiguous(memory_format=last), "w": reordered(), "p": pad, "s": stride,
                "d": dilation,
            }  # fmt: skip
            return self._kept(f"conv(x, w, None, p, s, d, {of.groups}, 'none', [], '')", names)

        def blocked() -> Way:
            layer = torch.nn.Conv2d(
                of.c, of.oc, of.k, of.stride, of.padding, groups=of.groups, bias=False
            )
            layer.weight = torch.nn.Parameter(w, requires_grad=False)
            layer = import_module("torch.utils.mkldnn").to_mkldnn(layer.eval())
            return self._kept("layer(x)", {"layer": layer, "x": x.to_mkldnn()})

        return [
            ("NCHW", lambda: plain(x, w)), ("channels_last", across), ("packed", packed),
            ("blocked", blocked),
        ]  # fmt: skip

    def _map(self, of: Map, given: dict[str, Any]) -> Iterable[Named]:
        out, t = (self.torch.full((of.n,), float("nan")) for _ in range(2))
        names = {"torch": self.torch, **given, "a": SCALAR, "out": out, "t": t}
        return [("eager", lambda: Way(STATEMENTS[of.expression], names, out.numpy))]


PEER = Torch
