"""What a map computes, as a graph: text and traced functions become the same thing here.

A Graph is a list of nodes, each with the numbers of earlier nodes as operands; equal nodes are one
node. `of_text` makes it from an expression, `trace.py` from a Python function; `steps` turns it
back into a postfix list for the kernels that want one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from .grammar import ARITY, fail, parse

MOST_STEPS = 1 << 16
"""Of a postfix program that shared nodes are written out for."""
MOST_NODES = 1 << 16
"""Of a graph: each costs some 0.1 ms until it is a program."""
OF_TRUTHS = frozenset({"add", "mul", "min", "max", "abs", "relu", "square", "floor", "where"})
"""What makes 0 or 1 of 0 and 1: there a sum is "or" and a product "and", as numpy has it."""


@dataclass(frozen=True, slots=True)
class Node:
    """`op` is "name" (value: the name), "number" (value: int or float) or a key of expr.ARITY."""

    op: str
    args: tuple[int, ...] = ()
    value: str | int | float = ""
    at: int | str = field(default=0, compare=False)  # in the text; of a trace: file and line


def distinct(value: object) -> tuple[object, type]:
    """What differs where `value` does: 1 and 1.0 are two things, and so are 0.0 and -0.0."""
    return (float.__repr__(value) if isinstance(value, float) else value, value.__class__)


class Graph:
    """Nodes, the last of them the result; `names` in order of first appearance.

    `text` is the expression, "" for a traced function, which `called` names. Graphs are equal that
    compute the same, wherever they were written: `source` is that, of which errors tell.
    """

    __slots__ = ("_hash", "_key", "called", "names", "nodes", "source", "text")

    def __init__(
        self, nodes: tuple[Node, ...], names: tuple[str, ...], text: str, called: str = ""
    ) -> None:
        self.nodes, self.names, self.text, self.called = nodes, names, text, called
        self._key = (tuple((n.op, n.args, *distinct(n.value)) for n in nodes), names)
        self._hash = hash(self._key)
        self.source = text, called, tuple(n.at for n in nodes)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Graph) and self._hash == other._hash and self._key == other._key

    def fail(self, node: Node | None, what: str, kind: type[Exception] = ValueError) -> NoReturn:
        """Raises `kind` that says `what` and shows the place of `node`."""
        if isinstance(getattr(node, "at", None), str):
            raise kind(f"{self.called}: {what}\n    {node.at}")  # type: ignore[union-attr]
        if not self.text:
            raise kind(f"{self.called}: {what}")
        try:
            fail(self.text, node.at if node else 0, what)  # type: ignore[arg-type]
        except ValueError as error:
            if kind is ValueError:
                raise
            raise kind(str(error)) from None


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
        key = (op, args, *distinct(value))
        found = self._known.get(key)
        if found is None:
            if len(self.nodes) >= MOST_NODES:
                what = f"it has more than the {MOST_NODES} steps that are possible"
                raise ValueError(f"{self.called or 'expression'}: {what}")
            found = self._known[key] = len(self.nodes)
            self.nodes.append(Node(op, args, value, at))
        return found

    def graph(self, root: int, names: tuple[str, ...], text: str, called: str = "") -> Graph:
        """Of what `root` needs; the nodes keep their order, root being the last."""
        needed = {root}
        for i in range(root, -1, -1):
            if i in needed:
                needed.update(self.nodes[i].args)
        order = sorted(needed)
        new = {old: i for i, old in enumerate(order)}
        nodes = tuple(
            Node(n.op, tuple(new[a] for a in n.args), n.value, n.at)
            for n in (self.nodes[i] for i in order)
        )
        return Graph(nodes, names, text, called)


@lru_cache(maxsize=512)
def of_text(text: str) -> Graph:
    """The graph of an expression; ValueError with a caret where it makes no sense."""
    expression = parse(text)
    builder = Builder()
    stack: list[int] = []
    for step in expression.steps:
        takes = ARITY.get(step.op, 0)
        args = tuple(stack[len(stack) - takes :])
        del stack[len(stack) - takes :]
        stack.append(builder.add(step.op, args, step.value, step.at))
    return builder.graph(stack[0], expression.names, text)


def steps(graph: Graph, leaves: tuple[bool, ...]) -> list[tuple[int, bool]]:
    """`graph` as a postfix list of (node, is it a leaf), `leaves` being taken as they are.

    What is shared is there as often as it is used. Of a sum or a product the operand comes first
    for which more values wait. ValueError: that is more than MOST_STEPS.
    """
    sizes: list[int] = []
    waits: list[int] = []
    for i, node in enumerate(graph.nodes):
        args = () if leaves[i] else node.args
        sizes.append(1 + sum(sizes[a] for a in args))
        waits.append(
            max((k + waits[a] for k, a in enumerate(_first(node, args, waits))), default=1)
        )
    if sizes[-1] > MOST_STEPS:
        graph.fail(
            graph.nodes[-1],
            f"it shares so much that it is {sizes[-1]} steps written out, and {MOST_STEPS} are "
            "possible on this device",
        )
    written: list[tuple[int, bool]] = []
    stack: list[tuple[int, bool]] = [(len(graph.nodes) - 1, False)]
    while stack:
        i, done = stack.pop()
        node = graph.nodes[i]
        if done or leaves[i] or not node.args:
            written.append((i, leaves[i] or not node.args))
        else:
            stack.append((i, True))
            stack.extend((a, False) for a in reversed(_first(node, node.args, waits)))
    return written


def _first(node: Node, args: tuple[int, ...], waits: list[int]) -> tuple[int, ...]:
    swap = node.op in ("add", "mul") and len(args) == 2 and waits[args[1]] > waits[args[0]]
    return args[::-1] if swap else args
