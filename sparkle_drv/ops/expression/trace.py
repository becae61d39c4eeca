"""Traced functions: a Python function called once with symbols in its arguments' place.

What it does with them (symbol.py) is written down as a graph, which then runs as one pass over
memory. The function never sees a value, so it cannot branch on one: `where` chooses. `traced` keeps
the graph with the function; a bare function is traced at each call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np

from sparkle_drv.ops.arguments.words import short

from .graph import Builder, Graph
from .symbol import Symbol, node


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
    called = short(str(getattr(function, "__name__", type(function).__name__)))
    builder = Builder(called)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(f"{called}: a function with a signature is wanted") from None
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(f"{called}: parameters by name are wanted, got {short(str(p))}")
    wanted = [p for p in parameters if p.default is p.empty]
    symbols = {p.name: Symbol(builder, builder.add("name", (), p.name)) for p in wanted}
    named = {p.name: symbols.pop(p.name) for p in wanted if p.kind is p.KEYWORD_ONLY}
    try:
        result = function(*symbols.values(), **named)
    except RecursionError:
        raise ValueError(
            f"{called}: it calls itself without end while it is traced; a traced function has no "
            "values to stop at: choose with where(condition, a, b)"
        ) from None
    if not isinstance(result, (Symbol, int, float, np.generic)):
        raise TypeError(f"{called}: one result is wanted, got {type(result).__name__}")
    names = tuple(p.name for p in wanted)
    return builder.graph(node(builder, result), names, "", called)
