"""The peer that is this package, on the cpu device: operands are numpy arrays, weights are
constants.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from . import streams
from .base import Named, Operands, Peer, Way
from .cases import EXPRESSIONS, SCALAR, Case, Conv, Gemm, Map

EARLY = 2
"""Calls that run other code: the first packs constants. In versions without constants, the
second packs read-only arrays."""


class Sparkle(Peer):
    """The peer that is this package. `checked` is the public call; `plan` and `bind` skip the
    checks.

    A product and a map write to an array that the caller gives, as in the peer numpy. A convolution
    allocates its result in each call, as those of torch and onnxruntime do. A convolution with
    `out=` is a separate way to compute the case.
    """

    def start(self, threads: int) -> str:
        import numpy

        import sparkle_drv

        self.np, self.ops = numpy, sparkle_drv.ops
        self.dev = sparkle_drv.open("cpu")  # SPARKLE_THREADS sets the number of threads
        return f"{sparkle_drv.__version__} ({self.dev.info.isa})"

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        of = case.of
        if isinstance(of, Gemm):
            return self._gemm(of, operands)
        if isinstance(of, Conv):
            return self._conv(of, operands)
        return self._map(case, of, operands)

    def _kept(self, weights: Any) -> Any:
        """Returns the weights as a constant, which the package may keep packed. Older versions of
        the package, which benchmarks/against.py measures too, have no constants. They get a
        read-only array.
        """
        if hasattr(self.ops, "constant"):
            return self.ops.constant(self.dev, weights)
        weights.flags.writeable = False
        return weights

    def _poisoned(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self.np.full(shape, self.np.nan, dtype)

    def _way(
        self,
        statement: str,
        names: dict[str, Any],
        out: Any,
        result: Callable[[], Any] | None = None,
    ) -> Way:
        return Way(statement, names, result or (lambda: out), EARLY, lambda: out.fill(self.np.nan))

    def _gemm(self, of: Gemm, operands: Operands) -> Iterable[Named]:
        a, b = operands["a"], operands["b"]

        def checked() -> Way:
            c = self._poisoned((of.m, of.n), a.dtype)
            kept = self._kept(b)
            names = {"gemm": self.ops.gemm, "dev": self.dev, "a": a, "b": kept, "c": c}
            return self._way("gemm(dev, a, b, c)", names, c)

        plan = self.ops.gemm.plan
        # In some versions of the package, plan() takes b and packs it at once.
        snapshot = "b" in inspect.signature(plan).parameters
        made = partial(plan, self.dev, of.m, of.n, of.k, a.dtype, **({"b": b} if snapshot else {}))
        right = None if snapshot else b

        def planned() -> Way:
            c = self._poisoned((of.m, of.n), a.dtype)
            return self._way(
                "plan(a, b, c).wait()", {"plan": made(), "a": a, "b": right, "c": c}, c
            )

        def bind() -> Way:
            bound = made()
            c = self.dev.array(self._poisoned((of.m, of.n), a.dtype))
            held = [self.dev.array(a), None if snapshot else self.dev.array(b), c]
            go, queue = bound.bind(*held), bound.queue

            def result() -> Any:
                if queue.reached < queue.submitted:
                    raise RuntimeError(
                        "expected the product to have ended when the function of bind() returns, "
                        f"got {queue.reached} of {queue.submitted} submissions reached"
                    )
                return c.numpy()

            return Way("go()", {"go": go, "held": (held, bound)}, result)

        ways: list[Named] = [("checked", checked), ("plan", planned)]
        return [*ways, ("bind", bind)] if max(of.m, of.n, of.k) <= 128 else ways

    def _conv(self, of: Conv, operands: Operands) -> Iterable[Named]:
        x, w = operands["x"], self._kept(operands["w"])
        shape = (of.n, of.oc, of.out, of.out)
        options = f"stride={of.stride}, padding={of.padding}, groups={of.groups}"

        def checked() -> Way:
            y: list[Any] = [None]
            names = {"conv2d": self.ops.conv2d, "dev": self.dev, "x": x, "w": w, "y": y}
            statement = f"y[0] = conv2d(dev, x, w, None, {options})"

            # also drops the result `y[0]`, so that the next call reuses its memory
            def poison() -> None:
                y[0].fill(self.np.nan)
                y[0] = None

            return Way(statement, names, lambda: y[0], EARLY, poison)

        def into() -> Way:
            y = self._poisoned(shape, x.dtype)
            names = {"conv2d": self.ops.conv2d, "dev": self.dev, "x": x, "w": w, "y": y}
            return self._way(f"conv2d(dev, x, w, None, y, {options})", names, y)

        def nhwc() -> Way:
            across = self.np.ascontiguousarray(x.transpose(0, 2, 3, 1))
            y = self._poisoned((of.n, of.out, of.out, of.oc), x.dtype)
            names = {"conv2d": self.ops.conv2d, "dev": self.dev, "x": across, "w": w, "y": y}
            statement = f"conv2d(dev, x, w, None, y, {options}, layout='NHWC')"
            return self._way(statement, names, y, lambda: y.transpose(0, 3, 1, 2))

        ways: list[Named] = [("checked", checked), ("out=", into)]
        # Only a single image is also timed in NHWC. A batch would take a minute more and show
        # little new.
        return [*ways, ("NHWC", nhwc)] if of.n == 1 else ways

    def _map(self, case: Case, of: Map, operands: Operands) -> Iterable[Named]:
        text = EXPRESSIONS[of.expression]

        def checked() -> Way:
            out = self._poisoned((of.n,), self.np.float32)
            given = ", ".join(f"{name}={name}" for name in of.arrays)
            scalar = ", a=a" if "a" in text.replace("tanh", "") else ""
            names = {"map": self.ops.map, "dev": self.dev, "out": out, "a": SCALAR, **operands}
            return self._way(f"map(dev, {text!r}, {given}{scalar}, out=out)", names, out)

        ways: list[Named] = [("checked", checked)]
        if case.name == streams.CASE:
            ways += [
                (name, partial(streams.way, name, operands, self.dev, self.ops))
                for name in streams.ARRAYS
            ]
        return ways


PEER = Sparkle
