"""The peer ncnn: convolutions with one extractor per call, as its users write them. Winograd and
packed layouts are enabled. ncnn has no batches: images go one by one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from .base import Named, Operands, Peer, Way
from .cases import Case, Conv


class Ncnn(Peer):
    def start(self, threads: int) -> str:
        self.np, self.ncnn = import_module("numpy"), import_module("ncnn")
        self.threads = threads
        return str(self.ncnn.__version__)

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        of = case.of
        if not isinstance(of, Conv):
            return []
        return [("Convolution", lambda: self._way(of, operands["x"], operands["w"]))]

    def _net(self, of: Conv, w: Any) -> Any:
        net = self.ncnn.Net()
        option = net.opt
        option.num_threads = self.threads
        for name in ("bf16_storage", "fp16_storage", "fp16_packed", "fp16_arithmetic"):
            setattr(option, f"use_{name}", False)  # compute in float32, as all peers do
        option.use_winograd_convolution = True
        option.use_sgemm_convolution = True
        option.use_packing_layout = True
        kind = "Convolution" if of.groups == 1 else "ConvolutionDepthWise"
        layer = f"0={of.oc} 1={of.k} 3={of.stride} 4={of.padding} 5=0 6={w.size} 7={of.groups}"
        with tempfile.TemporaryDirectory(prefix="sparkle-ncnn-") as folder:
            param, weights = Path(folder) / "one.param", Path(folder) / "one.bin"
            # ncnn's text format: a magic number, the numbers of layers and blobs, then one line per
            # layer.
            param.write_text(f"7767517\n2 2\nInput x 0 1 x\n{kind} one 1 1 x y {layer}\n")
            # the first four bytes are a flag: 0 is float32
            weights.write_bytes(bytes(4) + w.tobytes())
            if net.load_param(str(param)) or net.load_model(str(weights)):
                raise RuntimeError("ncnn cannot load the model")
        return net

    def _way(self, of: Conv, x: Any, w: Any) -> Way:
        net = self._net(of, w)
        mats = [self.ncnn.Mat(image).clone() for image in x]
        done: list[Any] = [None] * of.n

        def infer() -> None:
            for at, image in enumerate(mats):
                extractor = net.create_extractor()
                extractor.input("x", image)
                done[at] = extractor.extract("y")[1]

        def result() -> Any:
            return self.np.stack([self.np.array(y) for y in done])

        return Way("infer()", {"infer": infer}, result)


PEER = Ncnn
