"""Traced functions: a Python function is called once with symbols as arguments.

The function's operations on the symbols (symbol.py) become a graph, which runs as one pass over
memory. The function never sees a value, so it cannot branch on a value; it chooses with `where`.
`traced` traces a function once and keeps the graph with it. A plain function is traced at each call
of `map`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np

from sparkle_drv.ops.arguments.quoting import short

from .graph import Builder, Graph
from .symbol import Symbol, node


class Traced:
    """A function with its `graph` and the `names` of its parameters; it can be called as before."""

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
    """Traces `function` now and returns it with its graph; use it as a decorator.

    The function's parameters are the names for `map`. A parameter that has a number as default is a
    constant. Values that the function takes from outside its arguments are constants too. All
    constants, even numbers of numpy, take the type of the other operand, like numbers in a text.
    Pass a number as an argument if it must keep its type. Raises the errors of `map` for a function
    that cannot be traced.

    >>> @sp.ops.traced
    ... def blend(x, y, t=0.25):
    ...     return x + t * (y - x)
    >>> sp.ops.map(dev, blend, np.zeros(2, np.float32), np.ones(2, np.float32))
    array([0.25, 0.25], dtype=float32)
    """
    return Traced(function)


def trace(function: Callable[..., Any]) -> Graph:
    """Returns the graph of `function`.

    Raises TypeError, ValueError or AttributeError if the function cannot be traced.
    """
    called = short(str(getattr(function, "__name__", type(function).__name__)))
    builder = Builder(called)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(f"{called}: expected a function with a signature") from None
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(
                f"{called}: expected parameters by name, without * and **, got {short(str(p))}"
            )
    wanted = [p for p in parameters if p.default is p.empty]
    symbols = {p.name: Symbol(builder, builder.add("name", (), p.name)) for p in wanted}
    named = {p.name: symbols.pop(p.name) for p in wanted if p.kind is p.KEYWORD_ONLY}
    try:
        result = function(*symbols.values(), **named)
    except RecursionError:
        raise ValueError(
            f"{called}: it calls itself without end, because a traced function has no values to "
            "stop at: choose with where(condition, a, b)"
        ) from None
    if not isinstance(result, (Symbol, int, float, np.generic)):
        raise TypeError(f"{called}: expected one result, got {type(result).__name__}")
    names = tuple(p.name for p in wanted)
    return builder.graph(node(builder, result), names, "", called)
