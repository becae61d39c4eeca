"""The peer numexpr, which computes maps in blocks that fit the caches. Its own compiler compiles
each expression before the timing.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from .base import Named, Operands, Peer, Way
from .cases import EXPRESSIONS, SCALAR, Case, Map


class Numexpr(Peer):
    """The peer numexpr. `evaluate` looks the expression up in a cache; `re_evaluate` runs the
    previous one.
    """

    def start(self, threads: int) -> str:
        self.np, self.numexpr = import_module("numpy"), import_module("numexpr")
        self.numexpr.set_num_threads(threads)
        return str(self.numexpr.__version__)

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        of = case.of
        if not isinstance(of, Map):
            return []
        np, text = self.np, EXPRESSIONS[of.expression]
        out = np.full(of.n, np.nan, np.float32)
        # A scalar that is a Python float would make numexpr compute in float64.
        values = {name: operands[name] for name in of.arrays} | {"a": np.float32(SCALAR)}
        names = {"ne": self.numexpr, "values": values, "out": out}
        options = "local_dict=values, out=out"

        def evaluate() -> Way:
            return Way(f"ne.evaluate({text!r}, {options})", names, lambda: out)

        def again() -> Way:
            self.numexpr.validate(text, local_dict=values, out=out)
            return Way("ne.re_evaluate(local_dict=values)", names, lambda: out)

        return [("evaluate", evaluate), ("re_evaluate", again)]


PEER = Numexpr
