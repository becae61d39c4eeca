"""The graph of a map, to which texts and traced functions are converted.

A Graph is a list of nodes. The operands of a node are the numbers of earlier nodes. Equal nodes are
merged. grammar.py makes a graph from a text, trace.py from a Python function. `steps` turns a graph
into a postfix list, for the kernels that run postfix programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from sparkle_drv.ops.arguments.check import TooLong

from .elementwise import COMPARISONS

MOST_STEPS = 1 << 16
"""The most steps of a postfix program, in which a shared node appears several times."""
MOST_NODES = 1 << 16
"""The most nodes of a graph. Compiling a node takes about 0.1 ms."""
OF_TRUTHS = {
    **{op: op for op in ("min", "max", "abs", "relu", "square", "floor", "where")},
    **{"add": "max", "mul": "min"},
}
"""Operations that map truths (0 or 1) to truths, with the operation that computes them. As in
numpy, a sum of truths is "or" and a product is "and"."""
_QUOTED = 72  # characters of a long expression that an error quotes


@dataclass(frozen=True, slots=True)
class ExpressionNode:
    """A node: `op` is "name" (value: the name), "number" (value: int or float) or a key of ARITY.

    `at` is the node's position in the text, or file and line of a traced function. `truth` is True
    if the node's value is always 0 or 1.
    """

    op: str
    args: tuple[int, ...] = ()
    value: str | int | float = ""
    at: int | str = 0
    truth: bool = False


def distinct(value: object) -> tuple[object, type]:
    """Returns a key of `value` that differs between 1 and 1.0, and between 0.0 and -0.0."""
    return (float.__repr__(value) if isinstance(value, float) else value, value.__class__)


def placed(text: str, at: int, what: str) -> str:
    """Returns an error text: `what`, then the expression with a caret under position `at`."""
    start = max(0, min(at - _QUOTED // 2, len(text) - _QUOTED))
    shown = re.sub(r"\s", " ", text[start : start + _QUOTED])
    left, right = "..." if start else "", "..." if start + _QUOTED < len(text) else ""
    caret = " " * (len(left) + at - start) + "^"
    return f"expression: {what}\n    {left}{shown}{right}\n    {caret}"


class Graph:
    """Nodes, the last of which is the result, and `names` in the order of first appearance.

    `text` is the expression, "" for a traced function; `called` is the function's name. Graphs with
    the same nodes and names are equal, wherever they were written.
    """

    __slots__ = ("_hash", "_key", "called", "names", "nodes", "text")

    def __init__(
        self, nodes: tuple[ExpressionNode, ...], names: tuple[str, ...], text: str, called: str = ""
    ) -> None:
        self.nodes, self.names, self.text, self.called = nodes, names, text, called
        self._key = (tuple((n.op, n.args, *distinct(n.value)) for n in nodes), names)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._key == other._key

    def fail(
        self, node: ExpressionNode | None, what: str, kind: type[Exception] = ValueError
    ) -> NoReturn:
        """Raises `kind` with the text `what` and the position of `node`."""
        at = node.at if node else 0
        if isinstance(at, str):
            raise kind(f"{self.called}: {what}\n    at {at}")
        raise kind(placed(self.text, at, what) if self.text else f"{self.called}: {what}")


class Builder:
    """Collects the nodes of a graph and merges equal ones.

    `called` is the name of the traced function, "" for a text.
    """

    def __init__(self, called: str = "") -> None:
        self.called = called
        self.nodes: list[ExpressionNode] = []
        self._known: dict[tuple[object, ...], int] = {}

    def add(
        self, op: str, args: tuple[int, ...] = (), value: str | int | float = "", at: int | str = 0
    ) -> int:
        """Returns the number of the node with these fields; adds the node if there is none.

        x**2 becomes a square. x**2.0 does not, because its result is a float even if x is a whole
        number. The condition of `where` is compared with 0 unless it is always 0 or 1. The reason:
        the map may compute in a type, such as i32, that cannot hold a condition such as 0.5. Raises
        ValueError for too many nodes.
        """
        if op == "pow" and distinct(self.nodes[args[1]].value) == (2, int):
            op, args = "square", args[:1]
        if op == "where" and not self.nodes[args[0]].truth:
            zero = self.add("number", (), 0, at)
            args = (self.add("ne", (args[0], zero), at=at), *args[1:])
        number = self._known.setdefault((op, args, *distinct(value)), len(self.nodes))
        if number == len(self.nodes):
            if number >= MOST_NODES:
                what = f"expected at most {MOST_NODES} steps, got more"
                raise ValueError(f"{self.called or 'expression'}: {what}")
            of_truths = op in OF_TRUTHS and all(self.nodes[a].truth for a in args)
            self.nodes.append(
                ExpressionNode(op, args, value, at, of_truths or op in COMPARISONS.values())
            )
        return number

    def graph(self, root: int, names: tuple[str, ...], text: str, called: str = "") -> Graph:
        """Returns the graph of the nodes that `root` depends on, in their order; root is last."""
        needed = {root}
        for i in range(root, -1, -1):
            if i in needed:
                needed.update(self.nodes[i].args)
        order = sorted(needed)
        new = {old: i for i, old in enumerate(order)}
        nodes = (self.nodes[i] for i in order)
        kept_nodes = tuple(
            ExpressionNode(n.op, tuple([new[a] for a in n.args]), n.value, n.at, n.truth)
            for n in nodes
        )
        return Graph(kept_nodes, names, text, called)


def steps(graph: Graph, leaves: tuple[bool, ...]) -> list[tuple[int, bool]]:
    """Returns `graph` as a postfix list of (node, True for a leaf).

    `leaves` says for each node whether it is a leaf: an operand of the program, which no step
    computes. A shared node appears once for each use. A sum or a product begins with the operand
    that needs the deeper stack. Raises TooLong for more than MOST_STEPS steps.
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
            what = f"expected at most {MOST_STEPS} steps on this device, got more"
            what += ": shared values count once for each use"
            graph.fail(graph.nodes[-1], what, TooLong)
        i, done = stack.pop()
        if done or not operands[i]:
            written.append((i, not operands[i]))
        else:
            stack.append((i, True))
            stack.extend((a, False) for a in reversed(operands[i]))
    return written
