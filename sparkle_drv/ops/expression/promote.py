"""numpy's rules of types for maps: which type an operation computes in, and what comes of it.

A kind is what a value is: a tag ("f32" to "bf16"), the name of another numpy dtype (of a scalar),
or "int" and "float": Python's numbers, which are weak and take the type of what they meet (NEP 50,
whatever the version of numpy). Pure; called by `typed.py` and `scalars.py`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from sparkle_drv.ops.arguments.words import short, shown

from .elementwise import COMPARISONS
from .graph import Graph, Node

WEAK = ("int", "float")
_NAMES = {
    "f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8",
    "f16": "float16", "bf16": "bfloat16",
}  # fmt: skip
TAGS = (*_NAMES, "bool")
_KINDS = {name: kind for kind, name in _NAMES.items()}
REAL = frozenset({"exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos"})
"""Functions whose results are floats, also of integers."""
# What numpy makes real numbers of: those functions of small integers and of bool.
_SMALL = {
    **dict.fromkeys(("bool", "int8", "u8"), "f16"),
    **dict.fromkeys(("int16", "uint16"), "f32"),
    "int": "float",
}


def kind_of(value: Any) -> str:
    """The kind of a number: Python's are weak, numpy's are strong."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, np.generic):
        return _named(value.dtype)
    return "int" if isinstance(value, int) else "float"


COMPUTED_IN = {"f16": "f32", "bf16": "f32"}
"""Types that are stored only: each step computes in another one and rounds to them, as numpy's."""
SUMMED_IN = {"i32": "i64", "i64": "i64", "u8": "i64", "bool": "i64"}
"""What the kernels sum whole numbers in; numpy's type is `summed`."""
_MOST = {"f16": 65504.0, "bf16": 255.0 * 2.0**120}


def most(kind: str) -> float:
    """The largest number of a real kind."""
    return _MOST.get(kind) or float(np.finfo(dtype_name(kind)).max)


def summed(kind: str) -> np.dtype[Any]:
    """numpy's dtype of a sum."""
    return np.dtype(np.uint64) if kind == "u8" else dtype_of(SUMMED_IN.get(kind, kind))


def converts(before: str, after: str) -> bool:
    """Is the map's conversion numpy's? Real numbers that do not fit whole ones are undefined, and
    float64 is rounded to 16 bits once."""
    real = before in ("f32", "f64", *COMPUTED_IN)
    twice = before == "f64" and after in COMPUTED_IN
    return before in TAGS and after in TAGS and not twice and not (real and is_whole(after))


def is_whole(kind: str) -> bool:
    """Whole numbers of a fixed size?"""
    return kind in ("i32", "i64", "u8")


def dtype_name(kind: str) -> str:
    """numpy's name of a kind."""
    return _NAMES.get(kind, {"int": "int64", "float": "float64"}.get(kind, kind))


@lru_cache(maxsize=64)
def dtype_of(kind: str) -> np.dtype[Any]:
    """numpy's dtype of a kind."""
    found: np.dtype[Any] = np.dtype(dtype_name(kind))
    return found


def promote(kinds: tuple[str, ...]) -> str:
    """The kind in which values of these kinds meet; weak only when all are."""
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
    """(the kind that `op` computes in, the kind of its result); TypeError says what numpy says."""
    met = promote(kinds[1:] if op == "where" else kinds)
    if op in COMPARISONS.values():
        return ("f32" if met == "bool" else met), "bool"
    if met == "bool" and op in ("sub", "neg"):
        raise TypeError(f"numpy has no {op} of bool")
    if met == "bool" and op == "pow":
        met = "int8"
    whole = np.dtype(dtype_name(met)).kind in "biu"
    if whole and op in REAL:
        met = _SMALL.get(met, "f64")
    elif whole and op == "div":
        met = "float" if met == "int" else "f64"
    return met, met


def rule_of(graph: Graph, node: Node, kinds: tuple[str, ...]) -> tuple[str, str]:
    """`rule` for a node whose operands are of these kinds; its TypeError shows the place."""
    try:
        return rule(node.op, kinds)
    except TypeError as error:
        graph.fail(node, str(error), TypeError)


def fitted(graph: Graph, i: int, value: Any, kind: str) -> int | float:
    """The scalar at node i as this kind holds it; TypeError or ValueError with its name."""
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
            f"{name}: a whole number is wanted with {dtype_name(kind)} arrays, got {shown(value)}"
        )
    else:
        whole, limits = int(value), np.iinfo(dtype_name(kind))
        if limits.min <= whole <= limits.max:
            return whole
        what = f"{shown(whole)} does not fit {dtype_name(kind)}"
    if written:
        graph.fail(node, f"{name} does not fit {kind}")
    raise ValueError(f"{name}: {what}")
