"""Traced functions: a Python function called once with symbols in its arguments' place.

What it does with them (operators, functions.py, numpy's functions of the same meaning) is
written down as a graph, which then runs as one pass over memory. The function never sees a value,
so it cannot branch on one: `where` chooses. `traced` keeps the graph with the function; a bare
function is traced at each call.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, NoReturn

import numpy as np

from .expr import ARITY
from .graph import Builder, Graph
from .ref_ops import ELEMENTWISE

_BY_NUMPY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div",
    "power": "pow", "float_power": "pow", "minimum": "min", "maximum": "max", "negative": "neg",
    "absolute": "abs", "fabs": "abs", "exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh",
    "sin": "sin", "cos": "cos", "floor": "floor", "square": "square", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip


class Symbol:
    """Stands for an argument, or for what has become of some, while a function is traced."""

    __slots__ = ("_builder", "_node")
    __hash__ = None  # type: ignore[assignment]  # == is an operation

    def __init__(self, builder: Builder, node: int) -> None:
        self._builder = builder
        self._node = node

    def _no(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "a traced function has no values to branch on or to convert: choose with "
            "where(condition, a, b), loop over what is known beforehand"
        )

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __len__ = __iter__ = _no
    __getitem__ = __contains__ = __round__ = __array__ = _no

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Symbol:
        op = _BY_NUMPY.get(ufunc.__name__)
        if op is None or method != "__call__" or options:
            known = " ".join(sorted(_BY_NUMPY))
            raise TypeError(
                f"numpy.{ufunc.__name__} cannot be traced{' with options' * bool(options)}; "
                f"of numpy's there are {known} where"
            )
        return _apply(op, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Symbol:
        if function is np.where and len(args) == 3 and not options:
            return _apply("where", *args)
        raise TypeError(f"numpy.{function.__name__} cannot be traced")

    def __pos__(self) -> Symbol:
        return self


def _give_operators() -> None:
    """Python's operators, for Symbol: _apply with the operands in their order."""

    def forth(op: str) -> Any:
        return lambda *operands: _apply(op, *operands)

    def back(op: str) -> Any:
        return lambda self, other: _apply(op, other, self)

    for name, op in {"truediv": "div", **{op: op for op in ("add", "sub", "mul", "pow")}}.items():
        setattr(Symbol, f"__{name}__", forth(op))
        setattr(Symbol, f"__r{name}__", back(op))
    for op in ("neg", "abs", "lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Symbol, f"__{op}__", forth(op))


_give_operators()


def _where_called() -> str:
    """File and line of the function that is traced: the first frame that is not ours."""
    frame = sys._getframe(1)
    ours = __name__.rpartition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__package__") == ours:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _apply(op: str, *operands: Any) -> Symbol:
    builder = next(x._builder for x in operands if isinstance(x, Symbol))
    args = tuple(_node(builder, x) for x in operands)
    return Symbol(builder, builder.add(op, args, at=_where_called()))


def _node(builder: Builder, x: Any) -> int:
    if isinstance(x, Symbol):
        if x._builder is not builder:
            raise TypeError("a symbol of another trace: a traced function has to use its arguments")
        return x._node
    if isinstance(x, np.ndarray) and x.ndim:
        raise TypeError("an array inside a traced function: hand it in as an argument")
    if isinstance(x, (bool, np.bool_)):
        x = int(x)
    elif isinstance(x, (np.generic, np.ndarray)):
        x = x.item()  # a number that is written into the function, not one that is handed in
    if not isinstance(x, (int, float)):
        raise TypeError(f"a traced function computes with real numbers, got {type(x).__name__}")
    return builder.add("number", (), x, _where_called())


def called(name: str, *operands: Any) -> Any:
    """What functions.py's functions do: write symbols down, compute with anything else."""
    if len(operands) != ARITY[name]:
        raise TypeError(f"{name} takes {ARITY[name]} argument(s), {len(operands)} given")
    if any(isinstance(x, Symbol) for x in operands):
        return _apply(name, *operands)
    with np.errstate(all="ignore"):
        return ELEMENTWISE[name](*(np.asarray(x) for x in operands))[()]


class Traced:
    """A function and its graph: `graph`, and `names`, those of its parameters.

    Called, it is the function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.graph = trace(function)
        update_wrapper(self, function)

    @property
    def names(self) -> tuple[str, ...]:
        return self.graph.names

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)


def traced(function: Callable[..., Any]) -> Traced:
    """A decorator: `function` is traced now; what it finds outside its arguments stays as it is.

    Its parameters are the names of `map`; one with a default (a number) keeps that as a constant.
    Numbers that it finds, numpy's too, take the type of what they meet, as those in a text do: hand
    one in as an argument for it to keep its own.
    Raises what `map` raises of a function that cannot be traced.
    """
    return Traced(function)


def trace(function: Callable[..., Any]) -> Graph:
    """The graph of `function`; TypeError or ValueError says what cannot be traced."""
    called = str(getattr(function, "__name__", type(function).__name__))
    builder = Builder()
    names, symbols, named = _parameters(function, builder, called)
    try:
        result = function(*symbols, **named)
    except RecursionError:
        raise ValueError(
            f"{called}: it calls itself without end while it is traced; a traced function has no "
            "values to stop at: choose with where(condition, a, b)"
        ) from None
    if not isinstance(result, (Symbol, int, float, np.generic)):
        raise TypeError(f"{called}: one result is wanted, got {type(result).__name__}")
    return builder.graph(_node(builder, result), names, "", called)


def _parameters(
    function: Callable[..., Any], builder: Builder, called: str
) -> tuple[tuple[str, ...], list[Symbol], dict[str, Symbol]]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(f"{called}: a function with a signature is wanted") from None
    names: list[str] = []
    symbols: list[Symbol] = []
    named: dict[str, Symbol] = {}
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(f"{called}: parameters by name are wanted, got {p}")
        if p.default is not p.empty:
            continue
        symbol = Symbol(builder, builder.add("name", (), p.name, 0))
        names.append(p.name)
        if p.kind is p.KEYWORD_ONLY:
            named[p.name] = symbol
        else:
            symbols.append(symbol)
    return tuple(names), symbols, named
