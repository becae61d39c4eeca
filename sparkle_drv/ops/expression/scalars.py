"""Which nodes of a graph have one value for all elements: those are computed on the host, once a
call. Pure; called by `fused.py` and map.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from . import promote
from .grammar import COMPARISONS
from .graph import Builder, Graph


@dataclass(frozen=True)
class Scalars:
    """Which nodes of a graph are scalars, by the names that are.

    `order`: the nodes to compute, in order, each a scalar that an element needs, or that such a
    scalar needs. `needed`: those whose value an instruction reads, a subset.
    """

    uniform: tuple[bool, ...]
    order: tuple[int, ...]
    needed: tuple[int, ...]

    def values(self, graph: Graph, named: dict[str, Any]) -> dict[int, Any]:
        """The value of each node in `order`."""
        found: dict[int, Any] = {}
        for i in self.order:
            node = graph.nodes[i]
            if node.op == "number":
                found[i] = node.value
            elif node.op == "name":
                found[i] = named[str(node.value)]
            else:
                found[i] = promote.of_scalars(graph, node, [found[a] for a in node.args])
        return found


@lru_cache(maxsize=512)
def scalars(graph: Graph, names: frozenset[str]) -> Scalars:
    """`names`: those of the graph's names that are scalars."""
    uniform: list[bool] = []
    needed: set[int] = set()
    for i, node in enumerate(graph.nodes):
        own = node.op == "number" or (node.op == "name" and node.value in names)
        uniform.append(own or (bool(node.args) and all(uniform[a] for a in node.args)))
        if not uniform[i]:
            needed.update(a for a in node.args if uniform[a])
    if uniform[-1]:
        needed.add(len(uniform) - 1)
    order = set(needed)
    for i in range(len(uniform) - 1, -1, -1):
        if i in order:
            order.update(graph.nodes[i].args)
    return Scalars(tuple(uniform), tuple(sorted(order)), tuple(sorted(needed)))


def with_truths(graph: Graph, names: frozenset[str]) -> Graph:
    """`graph` with what is a scalar and a condition of `where` as "it is not 0": so it is whatever
    type computes, which may have no room for the scalar itself (0.5 in i32, 1e-50 in f32).
    """
    return _with_truths(graph, names, graph.source)


@lru_cache(maxsize=512)
def _with_truths(graph: Graph, names: frozenset[str], source: object) -> Graph:
    uniform = scalars(graph, names).uniform
    made = Builder(graph.called)
    new: list[int] = []
    for node in graph.nodes:
        args = tuple(new[a] for a in node.args)
        if node.op == "where" and uniform[node.args[0]]:
            condition = graph.nodes[node.args[0]]
            if condition.op not in COMPARISONS.values():
                zero = made.add("number", (), 0, condition.at)
                args = (made.add("ne", (args[0], zero), "", condition.at), *args[1:])
        new.append(made.add(node.op, args, node.value, node.at))
    return made.graph(new[-1], graph.names, graph.text, graph.called)
