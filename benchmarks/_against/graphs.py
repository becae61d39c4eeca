"""Rows: a graph of four operations. "kept": each call runs the same graph. "new": each call records
a graph, plans it and runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from _cpu_peers.base import Way

from .calls import SMALL, arrays, context, operands, verified
from .makers import Makers, by_both


def _record(ctx: Any, of: dict[str, Any]) -> tuple[Any, Any]:
    """Returns a graph and the node of its result."""
    with ctx.graph() as graph:
        product = graph.gemm(of["x"], of["y"])
        positive = graph.map("relu(p) + x", p=product, x=of["x"])
        again = graph.gemm(positive, of["y"])
        node = graph.reduce(again, axis=1)
    return graph, node


def _want(of: dict[str, Any]) -> Any:
    x, y = of["x"].astype(np.float64), of["y"].astype(np.float64)
    return ((np.maximum(x @ y, 0) + x) @ y).sum(axis=1)


def _way(name: str, dev: Any) -> Way:
    ctx, of = context("cpu"), operands(SMALL)
    given = arrays(ctx, of) if name.endswith("arrays") else of
    if "new" in name:

        def run() -> Any:
            graph, node = _record(ctx, given)
            with graph:
                graph.run()
                return node.numpy()

        return verified(name, "got[0] = run()", {"run": run}, _want(of), early=20)
    graph, node = _record(ctx, given)
    statement = "graph.run(); got[0] = node.numpy()"
    return verified(name, statement, {"graph": graph, "node": node}, _want(of))


ROWS: Mapping[str, Makers] = {
    name: by_both(partial(_way, name)) for name in ("graph kept", "graph kept arrays", "graph new")
}
