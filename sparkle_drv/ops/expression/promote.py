"""numpy's type rules for maps: the type that an operation computes in, and the type of its result.

The kind of a value is a tag (such as "f32" or "bf16"), the name of another numpy dtype (for
scalars), or "int" or "float" for a Python number. Python's numbers are weak: they take the type of
the other operand (NEP 50). These rules hold here with every version of numpy. This file uses no
device; `typed.py` and `scalars.py` call it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from sparkle_drv.ops.arguments.quoting import short, shown

from .elementwise import COMPARISONS
from .graph import ExpressionNode, Graph

WEAK = ("int", "float")
_NAMES = {
    "f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8",
    "f16": "float16", "bf16": "bfloat16",
}  # fmt: skip
TAGS = (*_NAMES, "bool")
_KINDS = {name: kind for kind, name in _NAMES.items()}
REAL = frozenset({"exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos"})
"""Functions whose results are floats, also for integers."""
# For exp, sqrt and the like of whole numbers: the operand's kind -> the result's kind. The operand
# is a bool, an integer of 8 or 16 bits, or an int of Python.
_SMALL = {
    **dict.fromkeys(("bool", "int8", "u8"), "f16"),
    **dict.fromkeys(("int16", "uint16"), "f32"),
    "int": "float",
}


def kind_of(value: Any) -> str:
    """Returns the kind of a number. Python's numbers are weak, numpy's are strong."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, np.generic):
        return _named(value.dtype)
    return "int" if isinstance(value, int) else "float"


COMPUTED_IN = {"f16": "f32", "bf16": "f32"}
"""Types of elements in memory -> the type that a step computes in, before it rounds, as numpy does.
"""
SUMMED_IN = {"i32": "i64", "i64": "i64", "u8": "i64", "bool": "i64"}
"""The type in which the kernels sum whole numbers; `summed` is numpy's type of the sum."""
_MOST = {"f16": 65504.0, "bf16": 255.0 * 2.0**120}


def most(kind: str) -> float:
    """Returns the largest number of a real kind."""
    return _MOST.get(kind) or float(np.finfo(dtype_name(kind)).max)


def summed(kind: str) -> np.dtype[Any]:
    """Returns numpy's dtype for a sum of elements of this kind."""
    return np.dtype(np.uint64) if kind == "u8" else dtype_of(SUMMED_IN.get(kind, kind))


def converts(before: str, after: str) -> bool:
    """Returns whether a map converts `before` to `after` with numpy's result.

    A map's result may differ in two cases. If a real number does not fit into the whole numbers,
    its conversion is undefined in numpy. From float64 to a type of 16 bits, numpy rounds once, a
    map twice.
    """
    real = before in ("f32", "f64", *COMPUTED_IN)
    twice = before == "f64" and after in COMPUTED_IN
    return before in TAGS and after in TAGS and not twice and not (real and is_whole(after))


def is_whole(kind: str) -> bool:
    """Returns whether `kind` is whole numbers of a fixed size."""
    return kind in ("i32", "i64", "u8")


def dtype_name(kind: str) -> str:
    """Returns numpy's name of a kind."""
    return _NAMES.get(kind, {"int": "int64", "float": "float64"}.get(kind, kind))


@lru_cache(maxsize=64)
def dtype_of(kind: str) -> np.dtype[Any]:
    """Returns numpy's dtype of a kind."""
    found: np.dtype[Any] = np.dtype(dtype_name(kind))
    return found


def promote(kinds: tuple[str, ...]) -> str:
    """Returns the kind to which values of these kinds promote; weak only if all kinds are weak."""
    strong = [np.dtype(dtype_name(k)) for k in kinds if k not in WEAK]
    if not strong:
        return "float" if "float" in kinds else "int"
    met = np.result_type(*strong)
    if "float" in kinds and met.kind != "f":
        met = np.promote_types(met, np.float64)
    elif "int" in kinds and met.kind == "b":
        met = np.dtype(np.int64)
    return _named(met)


def _named(dtype: np.dtype[Any]) -> str:
    name: str = dtype.name
    return _KINDS.get(name, name)


@lru_cache(maxsize=4096)
def rule(op: str, kinds: tuple[str, ...]) -> tuple[str, str]:
    """Returns (the kind that `op` computes in, the kind of its result).

    Raises TypeError where numpy does.
    """
    met = promote(kinds[1:] if op == "where" else kinds)
    if op in COMPARISONS.values():
        if met == "f64" and all(np.dtype(dtype_name(k)).kind in "biu" for k in kinds):
            met = "i64"  # numpy compares signed numbers with uint64 exactly
        return ("f32" if met == "bool" else met), "bool"
    if met == "bool" and op in ("sub", "neg"):
        raise TypeError(f"numpy has no {op} of bool")
    if met == "bool" and op in ("pow", "square"):
        met = "int8"
    whole = np.dtype(dtype_name(met)).kind in "biu"
    if whole and op in REAL:
        met = _SMALL.get(met, "f64")
    elif whole and op == "div":
        met = "float" if met == "int" else "f64"
    return met, met


def rule_of(graph: Graph, node: ExpressionNode, kinds: tuple[str, ...]) -> tuple[str, str]:
    """Returns the result of `rule` for a node with operands of these kinds.

    A TypeError shows the node's place in the expression.
    """
    try:
        return rule(node.op, kinds)
    except TypeError as error:
        graph.fail(node, str(error), TypeError)


def fitted(graph: Graph, i: int, value: Any, kind: str) -> int | float:
    """Returns the scalar at node i as a number of this kind.

    Raises TypeError or ValueError, which name the scalar, if it does not fit.
    """
    node = graph.nodes[i]
    written = node.op == "number"
    name = shown(value) if written else short(str(node.value) or node.op)
    if kind == "bool":
        return int(bool(value))
    if not is_whole(kind):
        number = value if isinstance(value, int) else float(value)
        if not most(kind) < abs(number) < math.inf:
            return float(np.dtype(dtype_name(kind)).type(number))
        what = f"it does not fit {kind}"
    elif isinstance(value, (float, np.floating)):
        raise TypeError(
            f"{name}: expected a whole number, because the arrays are {dtype_name(kind)}, "
            f"got {shown(value)}"
        )
    else:
        whole, limits = int(value), np.iinfo(dtype_name(kind))
        if limits.min <= whole <= limits.max:
            return whole
        what = f"{shown(whole)} does not fit {dtype_name(kind)}"
    if written:
        graph.fail(node, f"{name} does not fit {kind}")
    raise ValueError(f"{name}: {what}")
