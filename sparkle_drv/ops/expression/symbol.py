"""Symbols: what a traced function gets in its arguments' place, and what it may do with them.

Operators, functions.py and numpy's functions of the same meaning write nodes down with a Builder;
anything else a function could do with an array is refused by the operator's name, with the line
that wanted it. `trace.py` calls the function.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import numpy as np

from sparkle_drv.ops.arguments.words import short

from .elementwise import ARITY, ELEMENTWISE
from .elementwise import apply as computed
from .graph import Builder

_BY_NUMPY = {f: op for op, f in ELEMENTWISE.items() if isinstance(f, np.ufunc)}
_BY_NUMPY[np.fabs] = "abs"
_OPERATORS = "+ - * / ** < <= > >= == !=, and & | ^ ~ of comparisons"
# What Python may ask of a symbol that has no value: its method, and how it came to be asked.
_NO_VALUE = {
    "__bool__": "bool() (if, and, or, not, a < b < c, min, max)", "__float__": "float()",
    "__int__": "int()", "__index__": "a whole number (range, an index)", "__complex__": "complex()",
    "__len__": "len()", "__iter__": "iteration", "__getitem__": "an element, [...],",
    "__setitem__": "an element, [...] =,", "__delitem__": "an element, del [...],",
    "__contains__": "`in`", "__round__": "round()", "__trunc__": "math.trunc()",
    "__floor__": "math.floor() (functions.floor is there)", "__ceil__": "math.ceil()",
    "__array__": "a numpy array", "__hash__": "a hash (a set, a key of a dict)",
    "__call__": "a call, (...),",
}  # fmt: skip
# Python's operators that maps have not, and what says the same.
_ABSENT = {
    "mod": ("%", "x - y * floor(x / y)"), "floordiv": ("//", "floor(x / y)"),
    "divmod": ("divmod()", "floor(x / y)"), "matmul": ("@", ""), "lshift": ("<<", "x * 2**n"),
    "rshift": (">>", "floor(x / 2**n)"),
}  # fmt: skip
_OF_COMPARISONS = {"and": ("&", "mul"), "or": ("|", "add"), "xor": ("^", "ne")}


class Symbol:
    """Stands for an argument, or for what has become of some, while a function is traced."""

    __slots__ = ("_builder", "_node")

    def __init__(self, builder: Builder, node: int) -> None:
        self._builder = builder
        self._node = node

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Symbol:
        name = ufunc.__name__
        operator = {f"bitwise_{op}": op for op in _OF_COMPARISONS}.get(name)
        plain = method == "__call__" and not options
        if plain and operator:
            return _of_comparisons(operator, *inputs)
        op = _BY_NUMPY.get(ufunc)
        if op is None or not plain:
            known = " ".join(sorted(f.__name__ for f in _BY_NUMPY))
            refuse(
                self._builder,
                f"numpy.{name} cannot be traced{' with options' * bool(options)}; "
                f"of numpy's there are {known} where",
            )
        if ufunc is np.fabs:  # a float of a whole number
            inputs = (apply("mul", *inputs, 1.0),)
        return apply(op, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Symbol:
        if function is np.where and len(args) == 3 and not options:
            return apply("where", *args)
        refuse(self._builder, f"numpy.{function.__name__} cannot be traced")

    def __getattr__(self, name: str) -> NoReturn:
        refuse(
            self._builder,
            f"{short(name)}: a symbol stands for one element and has no such attribute",
            AttributeError,
        )

    def __pos__(self) -> Symbol:
        return self

    def __invert__(self) -> Symbol:
        if not _is_truth(self):
            refuse(self._builder, f"~: a comparison is wanted; there are {_OPERATORS}")
        return apply("ne", self, apply("eq", self, self))

    def __pow__(self, exponent: Any, modulus: Any = None) -> Symbol:
        if modulus is not None:
            refuse(self._builder, "pow() with a modulus cannot be traced")
        return apply("pow", self, exponent)


def _give_operators() -> None:
    """Python's operators, for Symbol: `apply` with the operands in their order, or a refusal."""

    def forth(function: Any, what: Any) -> Any:
        return lambda *operands: function(what, *operands)

    def back(function: Any, what: Any) -> Any:
        return lambda self, other: function(what, other, self)

    for name, op in {"truediv": "div", **{op: op for op in ("add", "sub", "mul")}}.items():
        setattr(Symbol, f"__{name}__", forth(apply, op))
        setattr(Symbol, f"__r{name}__", back(apply, op))
    Symbol.__rpow__ = back(apply, "pow")  # type: ignore[attr-defined]
    for op in ("neg", "abs", "lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Symbol, f"__{op}__", forth(apply, op))
    for names, function in ((_OF_COMPARISONS, _of_comparisons), (_ABSENT, _no_operator)):
        for name in names:
            setattr(Symbol, f"__{name}__", forth(function, name))
            setattr(Symbol, f"__r{name}__", back(function, name))
    for name in _NO_VALUE:
        setattr(Symbol, name, forth(_no_value, name))


def _no_value(method: str, self: Symbol, *_: Any, **__: Any) -> NoReturn:
    refuse(
        self._builder,
        f"{_NO_VALUE[method]} is wanted of a symbol, and a traced function has no values to branch "
        "on or to convert: choose with where(condition, a, b), loop over what is known beforehand",
    )


def _no_operator(name: str, *operands: Any) -> NoReturn:
    sign, instead = _ABSENT[name]
    hint = f"; {instead} does it for real numbers" if instead else ""
    refuse(_builder_of(operands), f"maps have no {sign}: there are {_OPERATORS}{hint}")


def _of_comparisons(name: str, *operands: Any) -> Symbol:
    """& | ^ of what is 0 or 1, as numpy has them of bool."""
    sign, op = _OF_COMPARISONS[name]
    if not all(map(_is_truth, operands)):
        what = f"{sign}: two comparisons are wanted, maps have no bits; there are {_OPERATORS}"
        refuse(_builder_of(operands), what)
    return apply(op, *operands)


def where_called() -> str:
    """File and line of the function that is traced: the first frame that is not ours."""
    frame = sys._getframe(1)
    ours = __name__.rpartition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__package__") == ours:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refuse(builder: Builder, what: str, kind: type[Exception] = TypeError) -> NoReturn:
    """Raises `kind` with the function's name, `what`, and the line that wanted it."""
    raise kind(f"{builder.called}: {what}\n    {where_called()}")


def _is_truth(x: Any) -> bool:
    """Is it 0 or 1, as numpy's bool?"""
    return isinstance(x, Symbol) and x._builder.nodes[x._node].truth


def _builder_of(operands: tuple[Any, ...]) -> Builder:
    return next(x._builder for x in operands if isinstance(x, Symbol))


def apply(op: str, *operands: Any) -> Symbol:
    """The symbol of `op` of symbols and numbers."""
    builder = _builder_of(operands)
    args = tuple(node(builder, x) for x in operands)
    return Symbol(builder, builder.add(op, args, at=where_called()))


def node(builder: Builder, x: Any) -> int:
    """The number of a symbol's node, or of one for a number."""
    if isinstance(x, Symbol):
        if x._builder is not builder:
            refuse(builder, "a symbol of another trace: a traced function has to use its arguments")
        return x._node
    if isinstance(x, np.ndarray) and x.ndim:
        refuse(builder, "an array inside a traced function: hand it in as an argument")
    if isinstance(x, (bool, np.bool_)):
        x = int(x)
    elif isinstance(x, (np.generic, np.ndarray)):
        x = x.item()  # a number that is written into the function, not one that is handed in
    if not isinstance(x, (int, float)):
        refuse(builder, f"a traced function computes with real numbers, got {type(x).__name__}")
    return builder.add("number", (), x, where_called())


def called(name: str, *operands: Any) -> Any:
    """What functions.py's functions do: write symbols down, compute with anything else."""
    if len(operands) != ARITY[name]:
        raise TypeError(f"{name} takes {ARITY[name]} argument(s), {len(operands)} given")
    if any(isinstance(x, Symbol) for x in operands):
        return apply(name, *operands)
    return computed(name, *operands)[()]


_give_operators()
