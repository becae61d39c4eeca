"""Substitutes expressions into one another: the map of a map becomes one expression. All functions
are pure.

Each node keeps its type, since the result of the inner expression has the dtype of the array that
it replaces. Names become x0, x1, ... in order of first use. Python's numbers become constants of
the expression. Equal expressions thus give equal graphs, however they were written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression import program
from sparkle_drv.ops.expression.graph import Builder, Graph
from sparkle_drv.ops.map import fused
from sparkle_drv.sched.model.task import Value

MOST_NODES = 256
"""Most nodes of an expression after substitution."""
MOST_TEXT = 72
"""Longest text of an expression in a message, in characters."""
LONGEST = 4000
"""Longest text of an expression, in characters."""
_SIGNS = {
    "add": ("+", 10), "sub": ("-", 10), "mul": ("*", 20), "div": ("/", 20), "pow": ("**", 40),
    "lt": ("<", 5), "le": ("<=", 5), "gt": (">", 5), "ge": (">=", 5), "eq": ("==", 5),
    "ne": ("!=", 5),
}  # fmt: skip
_UNARY = 30
CALLED = "map"
"""What errors call an expression that was put together."""


@dataclass(frozen=True)
class Expr:
    """An expression with the arrays and numbers that its names stand for."""

    graph: Graph
    reads: Mapping[str, Value]
    numbers: Mapping[str, Any]

    def joined(self, name: str, inner: Expr) -> Expr:
        """Returns this expression with `inner` in place of the array `name`."""
        return _Made().result(self, {name: inner})

    def plain(self) -> Expr:
        """Returns this expression with its arrays named x0, x1, ... in order of first use, and with
        Python's numbers as constants. Numpy's numbers get the names s0, s1, ...
        """
        return _Made().result(self, {})

    @property
    def fits(self) -> bool:
        """Whether this expression, made of several, is small enough for one kernel.

        Then every device that can run the separate expressions can run this one, too. The limits
        are the numbers of nodes, of arrays, and of values that are needed at the same time.
        """
        if len(self.graph.nodes) > MOST_NODES or len(self.reads) > program.INPUTS:
            return False
        kinds = {name: check.tag_of(value.dtype) for name, value in self.reads.items()}
        try:
            code, _ = fused.program(self.graph, kinds, dict(self.numbers))
            if len(code.types) == 1:
                uniform = tuple(
                    n.op == "number" or (n.op == "name" and n.value in self.numbers)
                    for n in self.graph.nodes
                )
                program.compile_graph(self.graph, uniform, next(iter(code.types)))
        except (ValueError, TypeError):
            return False
        return True


class _Made:
    """An expression under construction."""

    def __init__(self) -> None:
        self.builder = Builder()
        # The name of each array in the expression, by the number of its Value.
        self.arrays: dict[int, str] = {}
        self.reads: dict[str, Value] = {}
        self.numbers: dict[str, Any] = {}

    def result(self, outer: Expr, inner: Mapping[str, Expr]) -> Expr:
        root = self.copied(outer, inner)
        names = (*self.reads, *self.numbers)
        return Expr(self.builder.graph(root, names, "", CALLED), self.reads, self.numbers)

    def copied(self, expression: Expr, inner: Mapping[str, Expr]) -> int:
        """Appends the nodes of `expression` to the new expression. Returns the number of the last
        appended node.

        `inner` maps names of arrays in `expression` to expressions, whose nodes are appended in
        their place.
        """
        new: list[int] = []
        for node in expression.graph.nodes:
            if node.op != "name":
                args = tuple(new[a] for a in node.args)
                new.append(self.builder.add(node.op, args, node.value, node.at))
            elif node.value in inner:
                new.append(self.copied(inner[str(node.value)], {}))
            elif node.value in expression.reads:
                new.append(self.array(expression.reads[str(node.value)]))
            else:
                new.append(self.number(expression.numbers[str(node.value)]))
        return new[-1]

    def array(self, value: Value) -> int:
        name = self.arrays.setdefault(value.number, f"x{len(self.arrays)}")
        self.reads[name] = value
        return self.builder.add("name", (), name)

    def number(self, value: Any) -> int:
        if value.__class__ in (int, float):
            return self.builder.add("number", (), value)
        # a numpy number keeps its dtype: it stays an operand with a name, and becomes no constant
        name = f"s{len(self.numbers)}"
        self.numbers[name] = value
        return self.builder.add("name", (), name)


def written(graph: Graph) -> str:
    """Returns the expression as text. If the text is longer than MOST_TEXT, returns the number of
    operations and the names of the operands instead.
    """
    text = as_text(graph)
    if text and len(text) <= MOST_TEXT:
        return text
    return f"{operations(graph)} operations on {', '.join(graph.names)}"


@lru_cache(maxsize=1024)
def outline(graph: Graph) -> str:
    """Returns the expression as text without spaces, with "#" for its numbers, and with its names
    by their order. A long expression is a digest.

    Expressions with the same outline cost the same. An expression with a power keeps its numbers,
    because the exponent changes the computation.
    """
    names = {name: f"x{i}" for i, name in enumerate(graph.names)}
    keeps = any(node.op == "pow" for node in graph.nodes)
    text = as_text(graph, names, keeps).replace(" ", "")
    if 0 < len(text) <= MOST_TEXT:
        return text
    values = (names.get(str(n.value), n.value if keeps else "") for n in graph.nodes)
    nodes = [(n.op, n.args, value) for n, value in zip(graph.nodes, values, strict=True)]
    digest = hashlib.sha256(repr(nodes).encode()).hexdigest()[:12]
    return f"{operations(graph)} operations {digest}"


def as_text(graph: Graph, names: Mapping[str, str] | None = None, numbers: bool = True) -> str:
    """Returns the expression as text, or "" if the text would be longer than LONGEST. `names` are
    other names of its operands. Without `numbers`, "#" stands for each number.
    """
    texts: list[tuple[str, int]] = []  # (text, binding strength of its outer operator)
    for node in graph.nodes:
        operands = [texts[a] for a in node.args]
        if node.op == "name":
            name = str(node.value)
            text_of = names[name] if names else name, 99
        elif node.op == "number":
            text = _number(node.value) if numbers else "#"
            text_of = text, _UNARY if text.startswith("-") else 99
        elif node.op in _SIGNS:
            sign, binds = _SIGNS[node.op]
            (left, lb), (right, rb) = operands
            left = f"({left})" if lb < binds or (node.op == "pow" and lb == binds) else left
            right = f"({right})" if rb <= binds else right
            text_of = f"{left} {sign} {right}", binds
        elif node.op == "neg":
            text, binds = operands[0]
            text_of = (f"-({text})" if binds < _UNARY else f"-{text}"), _UNARY
        else:
            text_of = f"{node.op}({', '.join(text for text, _ in operands)})", 99
        if len(text_of[0]) > LONGEST:
            return ""
        texts.append(text_of)
    return texts[-1][0]


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int) else repr(float(np.float64(value)))


def operations(graph: Graph) -> int:
    """Returns how many operations of the expression each element of the result takes."""
    return sum(1 for node in graph.nodes if node.args)
