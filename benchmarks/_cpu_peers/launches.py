"""Rows of benchmarks/against.py: what a launch costs its caller. The kernel does almost nothing.
Two other rows are small calls: a product by a Context, and a reduction.

The rows use only names that every version of the package has. Called by sparkle.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from .base import Named, Way
from .cases import Launch

EACH = 64
"""Number of elements that the kernel writes: so few that writing takes no time."""


def ways(row: Launch, dev: Any) -> Iterable[Named]:
    """Returns the only way (`Way` of base.py) to compute a row, with the name of the way."""
    return [("checked", partial(_call if row.name in _CALLS else _way, row.name, dev))]


_CALLS = {"launch ctx.gemm": "got[0] = gemm(x, x)", "launch reduce": "got[0] = reduce(dev, x)"}
SIDE = 16
"""Number of rows and of columns of the matrix that these calls read."""


def _call(name: str, dev: Any) -> Way:
    import numpy

    import sparkle_drv

    x = numpy.full((SIDE, SIDE), 0.5, numpy.float32)
    want = SIDE / 4 if name == "launch ctx.gemm" else SIDE * SIDE / 2
    context = sparkle_drv.init(devices=["cpu"])
    reduce, got = sparkle_drv.ops.reduce, [numpy.zeros(())]
    names = {"gemm": context.gemm, "reduce": reduce, "dev": dev, "x": x, "got": got}

    def result() -> None:
        if (got[0] != want).any():
            raise ValueError(f"{name}: expected the result {want} everywhere, got {got[0]}")

    def poison() -> None:
        got[0] = numpy.zeros(())

    return Way(_CALLS[name], names, result, poison=poison)


def _way(name: str, dev: Any) -> Way:
    import sparkle_drv

    kernel, queue = dev.kernel("fill_f32"), dev.default_queue
    made = dev.buffer(4 * EACH)
    names: dict[str, Any] = {"q": queue, "k": kernel, "y": made, "n": EACH}

    def result() -> None:
        if (made.read("f4", EACH) != 1).any():
            raise ValueError(f"{name}: the kernel did not write the expected values")

    def poison() -> None:
        made.write(made.read("f4", EACH) * 0)

    if name == "launch one":
        statement = "q.launch(k, y, 1.0, n, groups=(1,)).wait()"
    elif name == "launch prepared":
        names["go"] = queue.prepare(kernel, made, 1.0, EACH, groups=(1,))
        statement = "q.fence(go()).wait()"
    else:
        names["c"] = sparkle_drv.Commands()
        for _ in range(int(name.rpartition(" ")[2])):
            names["c"].dispatch(kernel, made, 1.0, EACH, groups=(1,))
        statement = "q.submit(c).wait()"
    return Way(statement, names, result, poison=poison)
