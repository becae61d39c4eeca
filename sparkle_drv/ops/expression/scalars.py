"""Computes the nodes of a graph that have one value for all elements, once per call on the host.

map calls this file, which uses no device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import COMPARISONS, apply
from .graph import ExpressionNode, Graph
from .promote import WEAK, dtype_name, kind_of, rule_of

_WHOLE = (int, np.integer, np.bool_)
_MOST_BITS = 2048  # bits of the largest intermediate Python integer


def values(graph: Graph, named: dict[str, Any]) -> dict[int, Any]:
    """Returns a dict: number of a scalar node -> its value. `named` has the values of names.

    Raises ValueError or TypeError for an operation that the values do not allow.
    """
    computed: dict[int, Any] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "number":
            computed[i] = node.value
        elif node.value in named:
            computed[i] = named[str(node.value)]
        elif node.args and all(a in computed for a in node.args):
            computed[i] = _computed(graph, node, [computed[a] for a in node.args])
    return computed


def _computed(graph: Graph, node: ExpressionNode, operands: list[Any]) -> Any:
    """Computes `node.op` of numbers. If all are Python's whole numbers, the result is exact."""
    met, result = rule_of(graph, node, tuple(kind_of(v) for v in operands))
    if node.op == "where":
        return _cast(operands[1] if operands[0] else operands[2], met)
    if result == "int":
        return _exactly(graph, node, operands)
    if node.op in COMPARISONS.values() and all(isinstance(v, _WHOLE) for v in operands):
        return apply(node.op, *(np.asarray(int(v), object) for v in operands)).astype(bool)[()]
    if met == "bool" and node.op in ("abs", "relu", "floor"):
        return operands[0]
    try:
        cast = [_cast(v, met) for v in operands]
    except OverflowError:
        graph.fail(node, f"a number does not fit {dtype_name(met)}")
    found = apply(node.op, *cast)[()]
    return found.item() if result in WEAK else found


def _cast(value: Any, kind: str) -> Any:
    if kind in WEAK:
        return int(value) if kind == "int" else float(value)
    return np.dtype(dtype_name(kind)).type(value)


def _exactly(graph: Graph, node: ExpressionNode, operands: list[int]) -> int | float:
    """Computes `node.op` of Python's whole numbers. Raises ValueError for too large a result."""
    bits = 0
    if node.op == "pow":
        base, exponent = operands
        if exponent < 0:
            return float(np.power(float(base), float(exponent)))
        bits = base.bit_length() * exponent if abs(base) > 1 else 1
    if bits <= _MOST_BITS:
        found: int = apply(node.op, *(np.asarray(v, object) for v in operands)).item()
        if found.bit_length() <= _MOST_BITS:
            return found
    graph.fail(node, "the number is too large")
