"""Comparisons of whole arrays with a whole number that int64 cannot hold.

numpy compares them exactly. Here such a comparison has the same answer for every element, so it
becomes one with the least or largest number of the array's type. ops/map calls this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .graph import Builder, Graph

_LIMITS = np.iinfo(np.int64)
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_TRUE_BELOW = frozenset({"lt", "le", "ne"})  # true if the number is above every element


def comparable(graph: Graph, values: dict[str, Any]) -> Graph:
    """Returns `graph`, in which no whole array is compared with a number of `values` beyond int64.

    The names of the result are those of `graph`. `values` has an array or a number for each.
    """
    beyond = {
        name
        for name, value in values.items()
        if isinstance(value, (int, np.integer)) and not _LIMITS.min <= value <= _LIMITS.max
    }
    if not beyond:
        return graph
    builder = Builder(graph.called)
    numbers: list[int] = []
    for node in graph.nodes:
        op, args = node.op, node.args
        if op in _MIRRORED:
            names = [graph.nodes[i].value if graph.nodes[i].op == "name" else "" for i in args]
            if names[0] in beyond:
                op, args, names = _MIRRORED[op], args[::-1], names[::-1]
            limits = _limits(values.get(str(names[0])))
            if names[1] in beyond and limits is not None:
                above = values[str(names[1])] > 0
                true = (op in _TRUE_BELOW) if above else (op in ("gt", "ge", "ne"))
                limit = builder.add("number", (), int(limits.max if above else limits.min), node.at)
                op = {(True, True): "le", (True, False): "ge", (False, True): "gt"}.get(
                    (true, above), "lt"
                )
                numbers.append(builder.add(op, (numbers[args[0]], limit), at=node.at))
                continue
        numbers.append(
            builder.add(node.op, tuple(numbers[i] for i in node.args), node.value, node.at)
        )
    return builder.graph(numbers[-1], graph.names, graph.text, graph.called)


def _limits(array: Any) -> Any:
    dtype = getattr(array, "dtype", None)
    return np.iinfo(dtype) if dtype is not None and dtype.kind in "iu" else None
