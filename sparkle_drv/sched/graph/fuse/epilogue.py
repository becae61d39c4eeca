"""Finds how much of a map that reads a product the product itself can do: bias, activation, scale.
All functions are pure.

`peel` looks for the outermost part of the expression with the form C * act(A * y + B). Here y is
the result of the product; A, B, C are numbers or have one number per channel. The product takes act
as its activation, B as its bias, and A as a factor of its weights. C multiplies A and B if there is
no act. It also does so if act is relu, since relu(z) * C = relu(z * C) for C > 0. The rest of the
expression reads the result of that product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkle_drv.ops.expression.graph import Builder, ExpressionNode, Graph
from sparkle_drv.sched.model.task import Fold, Task, Value
from sparkle_drv.sched.operations.compose import Expr
from sparkle_drv.sched.operations.product import Product
from sparkle_drv.sched.operations.table import operation_of

_ACTIVATIONS = ("relu", "tanh", "sigmoid")
_ALONG = frozenset({"add", "sub", "mul", "div", "neg", "abs", "sqrt", "square", "exp", "min", "max",
                    "pow", "log"})  # fmt: skip
"""Operations that may be computed beforehand, per channel in float64. Functions with jumps are
excluded: float32's rounding could land on the other side of a jump."""


@dataclass(frozen=True)
class Epilogue:
    """The part of an expression that becomes the epilogue of a product."""

    at: int
    """The node of the expression that the product's result replaces."""
    activation: str | None
    bias: Value | None
    """The array that becomes the bias unchanged. None if the bias is folded or absent."""
    fold: Fold | None


class _Not(Exception):
    """The expression does not have the form that `peel` looks for."""


def peel(product: Task, expression: Expr) -> Iterator[Epilogue]:
    """Yields every part of `expression` that could become the epilogue of the product, the largest
    first.
    """
    name = next(n for n, value in expression.reads.items() if value.number == product.out.number)
    search = _Search(product, expression, name)
    for at in range(len(expression.graph.nodes) - 1, -1, -1):
        if search.all_through(at):
            try:
                yield search.match(at)
            except _Not:
                continue


class _Search:
    def __init__(self, product: Task, given: Expr, name: str) -> None:
        self.product, self.given = product, given
        self.nodes = given.graph.nodes
        self.y = next(i for i, n in enumerate(self.nodes) if n.op == "name" and n.value == name)
        self.depends: list[bool] = []
        self.along: list[bool] = []
        for i, node in enumerate(self.nodes):
            self.depends.append(i == self.y or any(self.depends[a] for a in node.args))
            self.along.append(not self.depends[i] and self._is_along(node))

    def _is_along(self, node: ExpressionNode) -> bool:
        """Returns whether the node is a number, or one number per channel in the
        product's dtype.
        """
        if node.op == "number":
            return True
        if node.op == "name":
            value = self.given.reads.get(str(node.value))
            if value is None:
                number = self.given.numbers[str(node.value)]
                return bool(getattr(number, "dtype", None) == self.product.out.dtype)
            return self._one_each(value)
        return node.op in _ALONG and all(self.along[a] for a in node.args)

    def _one_each(self, value: Value) -> bool:
        out = self.product.out
        axis = _operation(self.product).channels(self.product) % len(out.shape)
        wanted = (1,) * axis + (out.shape[axis],) + (1,) * (len(out.shape) - axis - 1)
        missing = len(out.shape) - len(value.shape)
        if missing < 0 or value.dtype != out.dtype:
            return False
        return (1,) * missing + value.shape in (wanted, (1,) * len(out.shape))

    def all_through(self, at: int) -> bool:
        """Returns whether the expression depends on the product's result only through node `at`."""
        reached = [False] * len(self.nodes)
        reached[-1] = True
        for i in range(len(self.nodes) - 1, -1, -1):
            if reached[i] and i != at:
                for a in self.nodes[i].args:
                    reached[a] = True
        return self.depends[at] and at != self.y and not reached[self.y]

    def match(self, at: int) -> Epilogue:
        """Returns the epilogue that ends at node `at`. Raises _Not if there is none."""
        steps = []
        i = at
        while i != self.y:
            op, other, i = self._step(i)
            steps.append((op, other))
        line = _Linear(self)
        activation = self.product.options.get("activation")
        positive = False
        for op, other in reversed(steps):
            if op in _ACTIVATIONS:
                if activation is not None:
                    raise _Not
                activation = op
            elif activation is None:
                line.take(op, other)
            elif activation == "relu" and op in ("mul", "div"):
                line.take(op, other)
                positive = True
            else:
                raise _Not
        bias, fold = line.done(positive)
        return Epilogue(at, activation, bias, fold)

    def _step(self, i: int) -> tuple[str, int, int]:
        """Returns (operation of node `i`, node of one operand, node of the other operand).

        The first of these operands does not depend on the product's result, the second does. If
        the operation has only one operand, the first is -1.
        """
        op, args = self.nodes[i].op, self.nodes[i].args
        inner = [a for a in args if self.depends[a]]
        others = [a for a in args if not self.depends[a]]
        if len(inner) != 1 or not all(self.along[a] for a in others):
            raise _Not
        if op in (*_ACTIVATIONS, "neg"):
            return op, -1, inner[0]
        if op == "max" and self.nodes[others[0]].value == 0:
            return "relu", -1, inner[0]
        if op in ("add", "mul") or (op in ("sub", "div") and inner[0] == args[0]):
            return op, others[0], inner[0]
        if op == "sub":
            return "from", others[0], inner[0]
        raise _Not


class _Linear:
    """The linear function scale * y + shift of a product's result y. `scale` and `shift` are node
    numbers in `builder`. A `scale` of None means 1, a `shift` of None means 0.
    """

    def __init__(self, search: _Search) -> None:
        self.search = search
        self.builder = Builder()
        self.reads: dict[str, Value] = {}
        self.scale: int | None = None
        self.shift: int | None = None

    def take(self, op: str, other: int) -> None:
        """Applies `op` to the result of this linear function. `other` is the index of the value
        that is the second operand of `op`.
        """
        add = self.builder.add
        if op in ("neg", "from"):
            self._times("mul", add("number", (), -1))
        if op in ("mul", "div"):
            self._times(op, self._copied(other))
        elif op != "neg":
            term = self._copied(other)
            if op == "sub":
                term = add("neg", (term,))
            self.shift = term if self.shift is None else add("add", (self.shift, term))

    def _times(self, op: str, factor: int) -> None:
        add = self.builder.add
        before = add("number", (), 1) if self.scale is None else self.scale
        self.scale = add(op, (before, factor))
        if self.shift is not None:
            self.shift = add(op, (self.shift, factor))

    def _copied(self, i: int) -> int:
        node = self.search.nodes[i]
        if node.op != "name":
            return self.builder.add(node.op, tuple(self._copied(a) for a in node.args), node.value)
        name = str(node.value)
        if name in self.search.given.numbers:
            return self.builder.add("number", (), float(self.search.given.numbers[name]))
        self.reads[name] = self.search.given.reads[name]
        return self.builder.add("name", (), name)

    def done(self, positive: bool) -> tuple[Value | None, Fold | None]:
        """Returns (bias, Fold), with which the product also computes `scale * y + shift` of its
        result y.

        The bias is an array that becomes the product's bias unchanged. The Fold changes weights and
        bias before the product. Each is None if it is not needed. `positive` demands that the
        Fold's scale is above 0.
        """
        product = self.search.product
        old = product.reads.get("bias")
        if product.fold is not None:
            raise _Not
        if self.scale is None and self.shift is None:
            return None, None
        if self.scale is None and old is None:
            node = self.builder.nodes[self.shift or 0]
            value = self.reads.get(str(node.value)) if node.op == "name" else None
            if value is not None and value.nbytes == self._channels() * value.dtype.itemsize:
                return value, None
        operation = _operation(product)
        weights = product.reads[operation.weights]
        beforehand = [*self.reads.values(), *([old] if old else [])]
        if self.scale is not None:
            beforehand.append(weights)
        if not all(value.host for value in beforehand):
            raise _Not
        scale, shift = self._graph(self.scale), self._graph(self.shift)
        return None, Fold(self.reads, scale, shift, positive, operation.weights)

    def _channels(self) -> int:
        product = self.search.product
        return product.out.shape[_operation(product).channels(product)]

    def _graph(self, root: int | None) -> Graph | None:
        return None if root is None else self.builder.graph(root, tuple(self.reads), "", "fold")


def _operation(product: Task) -> Product:
    operation = operation_of(product)
    assert isinstance(operation, Product)
    return operation
