"""What a map computes, as a graph: text and traced functions become the same thing here.

A Graph is a list of nodes, each with the numbers of earlier nodes as operands; equal nodes are one
node. `grammar.py` makes it from an expression, `trace.py` from a Python function; `steps` turns it
into a postfix list for the kernels that want one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from .elementwise import COMPARISONS

MOST_STEPS = 1 << 16
"""Of a postfix program that shared nodes are written out for."""
MOST_NODES = 1 << 16
"""Of a graph: each costs some 0.1 ms until it is a program."""
OF_TRUTHS = {
    **{op: op for op in ("min", "max", "abs", "relu", "square", "floor", "where")},
    **{"add": "max", "mul": "min"},
}
"""What makes 0 or 1 of 0 and 1, by the operation that does it: a sum is "or" and a product "and",
as numpy has it."""
_QUOTED = 72  # how much of a long expression an error quotes


@dataclass(frozen=True, slots=True)
class Node:
    """`op` is "name" (value: the name), "number" (value: int or float) or a key of ARITY.

    `at` is its place in the text; of a trace, file and line. truth: it is 0 or 1.
    """

    op: str
    args: tuple[int, ...] = ()
    value: str | int | float = ""
    at: int | str = 0
    truth: bool = False


def distinct(value: object) -> tuple[object, type]:
    """What differs where `value` does: 1 and 1.0 are two things, and so are 0.0 and -0.0."""
    return (float.__repr__(value) if isinstance(value, float) else value, value.__class__)


def placed(text: str, at: int, what: str) -> str:
    """An error's words: `what`, and the place in the expression that it is about."""
    start = max(0, min(at - _QUOTED // 2, len(text) - _QUOTED))
    shown = re.sub(r"\s", " ", text[start : start + _QUOTED])
    left, right = "..." if start else "", "..." if start + _QUOTED < len(text) else ""
    caret = " " * (len(left) + at - start) + "^"
    return f"expression: {what}\n    {left}{shown}{right}\n    {caret}"


class Graph:
    """Nodes, the last of them the result; `names` in order of first appearance.

    `text` is the expression, "" for a traced function, which `called` names. Graphs are equal that
    compute the same, wherever they were written.
    """

    __slots__ = ("_hash", "_key", "called", "names", "nodes", "text")

    def __init__(
        self, nodes: tuple[Node, ...], names: tuple[str, ...], text: str, called: str = ""
    ) -> None:
        self.nodes, self.names, self.text, self.called = nodes, names, text, called
        self._key = (tuple((n.op, n.args, *distinct(n.value)) for n in nodes), names)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._key == other._key

    def fail(self, node: Node | None, what: str, kind: type[Exception] = ValueError) -> NoReturn:
        """Raises `kind` that says `what` and shows the place of `node`."""
        at = node.at if node else 0
        if isinstance(at, str):
            raise kind(f"{self.called}: {what}\n    {at}")
        raise kind(placed(self.text, at, what) if self.text else f"{self.called}: {what}")


class Builder:
    """Collects nodes; one that is there already is not made again.

    `called`: the function that is traced, "" for a text.
    """

    def __init__(self, called: str = "") -> None:
        self.called = called
        self.nodes: list[Node] = []
        self._known: dict[tuple[object, ...], int] = {}

    def add(
        self, op: str, args: tuple[int, ...] = (), value: str | int | float = "", at: int | str = 0
    ) -> int:
        """The number of the node. x**2 is a square, but x**2.0 makes a float of a whole number. A
        condition is a truth: types may have no room for a scalar that is one (0.5 in i32).
        """
        if op == "pow" and distinct(self.nodes[args[1]].value) == (2, int):
            op, args = "square", args[:1]
        if op == "where" and not self.nodes[args[0]].truth:
            zero = self.add("number", (), 0, at)
            args = (self.add("ne", (args[0], zero), at=at), *args[1:])
        found = self._known.setdefault((op, args, *distinct(value)), len(self.nodes))
        if found == len(self.nodes):
            if found >= MOST_NODES:
                what = f"it has more than the {MOST_NODES} steps that are possible"
                raise ValueError(f"{self.called or 'expression'}: {what}")
            of_truths = op in OF_TRUTHS and all(self.nodes[a].truth for a in args)
            self.nodes.append(Node(op, args, value, at, of_truths or op in COMPARISONS.values()))
        return found

    def graph(self, root: int, names: tuple[str, ...], text: str, called: str = "") -> Graph:
        """Of what `root` needs; the nodes keep their order, root being the last."""
        needed = {root}
        for i in range(root, -1, -1):
            if i in needed:
                needed.update(self.nodes[i].args)
        order = sorted(needed)
        new = {old: i for i, old in enumerate(order)}
        nodes = (self.nodes[i] for i in order)
        made = tuple(
            Node(n.op, tuple([new[a] for a in n.args]), n.value, n.at, n.truth) for n in nodes
        )
        return Graph(made, names, text, called)


def steps(graph: Graph, leaves: tuple[bool, ...]) -> list[tuple[int, bool]]:
    """`graph` as a postfix list of (node, is it a leaf), `leaves` being taken as they are.

    What is shared is there as often as it is used. Of a sum or a product the operand comes first
    for which more values wait. ValueError: that is more than MOST_STEPS.
    """
    operands: list[tuple[int, ...]] = []
    waits: list[int] = []
    for i, node in enumerate(graph.nodes):
        args = () if leaves[i] else node.args
        if node.op in ("add", "mul") and args and waits[args[1]] > waits[args[0]]:
            args = args[::-1]
        operands.append(args)
        waits.append(max((k + waits[a] for k, a in enumerate(args)), default=1))
    written: list[tuple[int, bool]] = []
    stack = [(len(graph.nodes) - 1, False)]
    while stack:
        if len(written) > MOST_STEPS:
            what = f"it shares so much that it is more than {MOST_STEPS} steps written out"
            graph.fail(graph.nodes[-1], f"{what}, which this device cannot run")
        i, done = stack.pop()
        if done or not operands[i]:
            written.append((i, not operands[i]))
        else:
            stack.append((i, True))
            stack.extend((a, False) for a in reversed(operands[i]))
    return written
