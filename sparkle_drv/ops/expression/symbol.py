"""Symbols: the arguments of a traced function, and the operations that it may apply to them.

Operators, functions.py and numpy's functions of the same meaning add nodes with a Builder. Any
other use of a symbol raises an error with the operator's name and the line of the use. trace.py
calls the traced function.
"""

from __future__ import annotations

import sys
from functools import partialmethod
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from sparkle_drv.ops.arguments.quoting import short

from .elementwise import ARITY, ELEMENTWISE
from .elementwise import apply as computed
from .graph import Builder

_BY_NUMPY = {f: op for op, f in ELEMENTWISE.items() if isinstance(f, np.ufunc)}
_BY_NUMPY[np.fabs] = "abs"
_OPERATORS = "+ - * / ** < <= > >= == !=, and & | ^ ~ of comparisons"
# Python calls one of these methods when a function needs the value of a symbol, which has none. The
# text names that use of the symbol in the error.
_NO_VALUE = {
    "__bool__": "bool() (if, and, or, not, a < b < c, min, max)", "__float__": "float()",
    "__int__": "int()", "__index__": "a whole number (range, an index)", "__complex__": "complex()",
    "__len__": "len()", "__iter__": "iteration", "__getitem__": "an element, [...],",
    "__setitem__": "an element, [...] =,", "__delitem__": "an element, del [...],",
    "__contains__": "`in`", "__round__": "round()", "__trunc__": "math.trunc()",
    "__floor__": "math.floor() (use functions.floor)", "__ceil__": "math.ceil()",
    "__array__": "a numpy array", "__hash__": "a hash (a set, a key of a dict)",
    "__call__": "a call, (...),",
}  # fmt: skip
# numpy functions behind operators that maps do not have -> (the operator as it is written, an
# expression to write instead).
_ABSENT = {
    np.remainder: ("%", "x - y * floor(x / y)"), np.floor_divide: ("//", "floor(x / y)"),
    np.divmod: ("divmod()", "floor(x / y)"), np.matmul: ("@", ""),
    np.left_shift: ("<<", "x * 2**n"), np.right_shift: (">>", "floor(x / 2**n)"),
}  # fmt: skip
_OF_COMPARISONS = {
    np.bitwise_and: ("&", "mul"), np.bitwise_or: ("|", "add"), np.bitwise_xor: ("^", "ne")
}  # fmt: skip


class Symbol:
    """An argument, or a value computed from arguments, of a function that is being traced."""

    __slots__ = ("_builder", "_node")

    def __init__(self, builder: Builder, node: int) -> None:
        self._builder = builder
        self._node = node

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Symbol:
        name = ufunc.__name__
        if method != "__call__" or options:
            self._refuse_numpy(f"{name} cannot be traced with options")
        if ufunc is np.positive:
            return self
        if ufunc in _ABSENT:
            sign, instead = _ABSENT[ufunc]
            hint = f"; for real numbers write {instead}" if instead else ""
            what = f"maps have no {sign} (numpy.{name}), only {_OPERATORS}{hint}"
            refuse(self._builder, what)
        if ufunc is np.invert:
            if not _is_truth(self):
                refuse(self._builder, f"~: expected a comparison; maps have {_OPERATORS}")
            return apply("ne", self, apply("eq", self, self))
        # For truths (0 or 1), & | ^ give what numpy gives for bool.
        if ufunc in _OF_COMPARISONS:
            sign, op = _OF_COMPARISONS[ufunc]
            if not all(map(_is_truth, inputs)):
                what = f"{sign}: expected two comparisons, because maps have no bits; maps have "
                refuse(self._builder, what + _OPERATORS)
            return apply(op, *inputs)
        if ufunc not in _BY_NUMPY:
            self._refuse_numpy(f"{name} cannot be traced")
        if ufunc is np.fabs:  # np.fabs of a whole number is a float
            inputs = (apply("mul", *inputs, 1.0),)
        return apply(_BY_NUMPY[ufunc], *inputs)

    def _refuse_numpy(self, what: str) -> NoReturn:
        known = " ".join(sorted(f.__name__ for f in _BY_NUMPY))
        refuse(self._builder, f"numpy.{what}; numpy's functions in maps: {known} where")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Symbol:
        if function is np.where and len(args) == 3 and not options:
            return apply("where", *args)
        self._refuse_numpy(f"{function.__name__} cannot be traced")

    def __getattr__(self, name: str) -> NoReturn:
        refuse(
            self._builder,
            f"{short(name)}: a symbol has no such attribute, because it stands for one element",
            AttributeError,
        )

    def __pow__(self, exponent: Any, modulus: Any = None) -> Symbol:
        if modulus is not None:
            refuse(self._builder, "pow() with a modulus cannot be traced")
        return apply("pow", self, exponent)


def _give_operators() -> None:
    """Gives Symbol the methods of Python's operators, and those named in _NO_VALUE.

    An operator calls its numpy function. A method of _NO_VALUE raises an error.
    """
    methods = vars(NDArrayOperatorsMixin)
    for name, method in methods.items():
        in_place = name.startswith("__i") and name.replace("__i", "__", 1) in methods
        if callable(method) and not in_place and name not in vars(Symbol):
            setattr(Symbol, name, method)
    for name in _NO_VALUE:
        setattr(Symbol, name, partialmethod(_no_value, name))


def _no_value(self: Symbol, method: str, *_: Any, **__: Any) -> NoReturn:
    refuse(
        self._builder,
        f"{_NO_VALUE[method]} is not possible with a symbol, because a traced function has no "
        "values: choose with where(condition, a, b), and loop only over numbers known beforehand",
    )


def where_called() -> str:
    """Returns the file and line that the traced function has reached.

    The innermost frame outside this package and numpy.lib has this file and line.
    """
    frame = sys._getframe(1)
    ours = __name__.rpartition(".")[0], "numpy.lib"
    while frame.f_back is not None and frame.f_globals.get("__package__") in ours:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refuse(builder: Builder, what: str, kind: type[Exception] = TypeError) -> NoReturn:
    """Raises `kind`. The text has the traced function's name, `what`, and the line of the refused
    operation.
    """
    raise kind(f"{builder.called}: {what}\n    at {where_called()}")


def _is_truth(x: Any) -> bool:
    """Returns whether `x` is a symbol whose value is always 0 or 1."""
    return isinstance(x, Symbol) and x._builder.nodes[x._node].truth


def apply(op: str, *operands: Any) -> Symbol:
    """Adds a node for `op` of symbols and numbers, and returns its symbol."""
    builder = next(x._builder for x in operands if isinstance(x, Symbol))
    args = tuple(node(builder, x) for x in operands)
    return Symbol(builder, builder.add(op, args, at=where_called()))


def node(builder: Builder, x: Any) -> int:
    """Returns the number of the node of `x`, a symbol or a number. Adds a node for a number."""
    if isinstance(x, Symbol):
        if x._builder is not builder:
            refuse(builder, "expected a symbol of this trace, got one of another trace")
        return x._node
    if isinstance(x, np.ndarray) and x.ndim:
        refuse(builder, "a traced function uses an array: pass the array as an argument")
    if isinstance(x, (np.generic, np.ndarray)):
        # A constant of the function has no type of its own, so a numpy number becomes a Python
        # number.
        x = x.item()
    if not isinstance(x, (int, float)):
        refuse(builder, f"expected real numbers in a traced function, got {type(x).__name__}")
    return builder.add("number", (), int(x) if isinstance(x, bool) else x, where_called())


def called(name: str, *operands: Any) -> Any:
    """Applies a function of functions.py: adds a node if an operand is a symbol, else computes."""
    if len(operands) != ARITY[name]:
        raise TypeError(f"{name}: expected {ARITY[name]} argument(s), got {len(operands)}")
    if any(isinstance(x, Symbol) for x in operands):
        return apply(name, *operands)
    return computed(name, *operands)[()]


_give_operators()
