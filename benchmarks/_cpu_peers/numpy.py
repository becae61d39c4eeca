"""The peer numpy: each call has out=, and temporaries are allocated before the timing. numpy has
no convolution.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from .base import Named, Operands, Peer, Way
from .cases import SCALAR, Case, Conv, Gemm

STATEMENTS = {
    "copy": "np.copyto(out, x)",
    "four": "np.multiply(x, a, out); np.add(out, y, out); np.multiply(out, z, out);"
    " np.subtract(out, x, out)",
    "transcendental": "np.multiply(x, a, out); np.add(out, y, out); np.tanh(out, out);"
    " np.multiply(x, x, t); np.negative(t, t); np.exp(t, t); np.multiply(out, t, out)",
}


class Numpy(Peer):
    def start(self, threads: int) -> str:
        self.np = import_module("numpy")
        return str(self.np.__version__)

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        np, of = self.np, case.of
        if isinstance(of, Conv):
            return []
        if isinstance(of, Gemm):
            c = np.full((of.m, of.n), np.nan, of.dtype)
            names = {"matmul": np.matmul, **operands, "c": c}
            return [("matmul", lambda: Way("matmul(a, b, out=c)", names, lambda: c))]
        out, t = (np.full(of.n, np.nan, np.float32) for _ in range(2))
        names = {"np": np, **operands, "a": np.float32(SCALAR), "out": out, "t": t}
        return [("ufuncs", lambda: Way(STATEMENTS[of.expression], names, lambda: out))]


PEER = Numpy
