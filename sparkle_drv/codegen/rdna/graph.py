"""Reads the words of a map program (native/include/sp_map.h) as a graph of values for emit.py.

No other file of this folder knows the form in which `ops` writes programs. A value that a program
computes twice is one node, so inputs are loaded once. Nothing else is rearranged, so every result
is rounded as numpy rounds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
ARITY = {
    **dict.fromkeys(("add", "sub", "mul", "div", "min", "max", "pow", *COMPARISONS), 2),
    **dict.fromkeys(("neg", "abs", "relu", "exp", "log", "sqrt", "tanh", "sigmoid", "sin"), 1),
    **dict.fromkeys(("cos", "floor", "square"), 1),
    "where": 3,
}
I32 = frozenset(ARITY) - {
    "div", "pow", "exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos", "floor"
}  # fmt: skip


@dataclass(frozen=True)
class MapNode:
    """One value: `op` is "input" or "const" (number `slot`), or an operation on the nodes `args`.

    The operations "where_lt" to "where_ne" combine a comparison with "where". They take the two
    operands of the comparison, then the two values to choose from.
    """

    op: str
    slot: int
    args: tuple[int, ...]
    uniform: bool
    """True if the value is the same for every element."""


@dataclass(frozen=True)
class MapGraph:
    """Nodes in an order in which arguments precede the nodes that use them; the last is the
    result."""

    nodes: tuple[MapNode, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of the map's inputs that the graph reads, in the order of first use."""
        return tuple(node.slot for node in self.nodes if node.op == "input")

    @property
    def constants(self) -> int:
        """The number of constants that a launch must have: the highest one in use plus 1."""
        return max((node.slot + 1 for node in self.nodes if node.op == "const"), default=0)


@lru_cache(maxsize=1)
def _names() -> dict[int, str]:
    from sparkle_drv._native import lib  # has the enums of sp_map.h, the numbers of operations

    return {getattr(lib, f"SP_MAP_{op.upper()}"): op for op in (*ARITY, "input", "const")}


def parse(words: Sequence[int], dtype: str) -> MapGraph:
    """Returns the graph of a program.

    Raises ValueError if the words are not a valid program of `dtype` ("f32" or "i32").
    """
    try:
        return _graph(words, dtype)
    except ValueError as error:
        listed = ",".join(f"{word:x}" for word in words)
        raise ValueError(
            f"plan: {listed!r} is not a program for map_{dtype} (sp_map.h): {error}"
        ) from None


def _graph(words: Sequence[int], dtype: str) -> MapGraph:
    from sparkle_drv._native import lib

    known = I32 if dtype == "i32" else ARITY
    nodes: list[MapNode] = []
    places: dict[MapNode, int] = {}
    stack: list[int] = []
    for word in words:
        op, slot = _names().get(word & 0xFF, ""), word >> 8
        if op in ("input", "const"):
            if op == "input" and slot >= lib.SP_MAP_INPUTS:
                raise ValueError(f"expected an input number below {lib.SP_MAP_INPUTS}, got {slot}")
            node = MapNode(op, slot, (), op == "const")
        else:
            if op not in known:
                raise ValueError(f"unknown operation {word:#x}; expected one of sp_map.h")
            if len(stack) < ARITY[op]:
                raise ValueError(f"{op}: expected {ARITY[op]} operands, got {len(stack)}")
            args = tuple(stack[-ARITY[op] :])
            del stack[-ARITY[op] :]
            condition = nodes[args[0]]
            if op == "where" and condition.op in COMPARISONS:
                op, args = f"where_{condition.op}", (*condition.args, *args[1:])
            node = MapNode(op, 0, args, all(nodes[arg].uniform for arg in args))
        at = places.setdefault(node, len(nodes))
        if at == len(nodes):
            nodes.append(node)
        stack.append(at)
    if len(stack) != 1:
        raise ValueError(f"expected one result, got {len(stack)} values on the stack")
    return MapGraph(_needed(nodes, stack[0]))


def _needed(nodes: list[MapNode], result: int) -> tuple[MapNode, ...]:
    """Returns the nodes that `result` depends on, in their order and renumbered."""
    needed = {result}
    for at in range(result, -1, -1):
        if at in needed:
            needed.update(nodes[at].args)
    places = {old: new for new, old in enumerate(sorted(needed))}
    return tuple(
        replace(nodes[old], args=tuple(places[arg] for arg in nodes[old].args)) for old in places
    )
