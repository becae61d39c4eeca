"""numpy's rules of types for maps: which type an operation computes in, and what comes of it.

A kind is what a value is: "f32" "f64" "i32" "bool", the name of another numpy dtype (of a scalar),
or "int" and "float": Python's numbers, which are weak and take the type of what they meet (NEP 50,
whatever the version of numpy). Also what becomes of scalars alone, which is computed here, on the
host, once a call. Pure; called by `typed.py` and `scalars.py`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from sparkle_drv.ops.arguments.words import short, shown

from .elementwise import ELEMENTWISE
from .grammar import COMPARISONS
from .graph import Graph, Node

WEAK = ("int", "float")
_NAMES = {"f32": "float32", "f64": "float64", "i32": "int32"}
_KINDS = {name: kind for kind, name in _NAMES.items()}
_REAL = frozenset({"exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos"})
_COMPARED = frozenset(COMPARISONS.values())
_EXACT = frozenset({"add", "sub", "mul", "neg", "abs", "relu", "min", "max", "square", "floor"})
_MOST_BITS = 2048  # of a Python integer on the way


def kind_of(value: Any) -> str:
    """The kind of a number: Python's are weak, numpy's are strong."""
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, np.generic):
        return _named(value.dtype)
    return "int" if isinstance(value, int) else "float"


def dtype_name(kind: str) -> str:
    """numpy's name of a kind."""
    return _NAMES.get(kind, {"int": "int64", "float": "float64"}.get(kind, kind))


@lru_cache(maxsize=4096)
def promote(kinds: tuple[str, ...]) -> str:
    """The kind in which values of these kinds meet; weak only when all are."""
    strong: list[np.dtype[Any]] = [np.dtype(dtype_name(k)) for k in kinds if k not in WEAK]
    if not strong:
        return "float" if "float" in kinds else "int"
    met = strong[0]
    for other in strong[1:]:
        met = np.promote_types(met, other)
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
    if op == "where":
        met = promote(kinds[1:])
        return met, met
    met = promote(kinds)
    if op in _COMPARED:
        return ("f32" if met == "bool" else met), "bool"
    if met == "bool":
        if op in ("sub", "neg"):
            raise TypeError(f"numpy has no {op} of bool")
        if op == "div":
            return "f64", "f64"
        if op in _REAL:
            return "float16", "float16"
        if op == "pow":
            return "int8", "int8"
        return "bool", "bool"
    whole = met == "int" or np.dtype(dtype_name(met)).kind in "iu"
    if whole and (op in _REAL or op == "div"):
        small = {"int8": "float16", "uint8": "float16", "int16": "f32", "uint16": "f32"}
        met = "float" if met == "int" else small.get(met, "f64") if op != "div" else "f64"
    return met, met


def of_scalars(graph: Graph, node: Node, values: list[Any]) -> Any:
    """`node.op` of numbers: weak ones as Python computes, exactly where they are whole."""
    kinds = tuple(kind_of(v) for v in values)
    try:
        met, result = rule(node.op, kinds)
    except TypeError as error:
        graph.fail(node, str(error), TypeError)
    if node.op == "where":
        chosen = values[1] if values[0] != 0 else values[2]
        return _cast(chosen, met)
    if met == "int" and node.op in _EXACT | {"pow"}:
        whole = _exactly(node.op, [int(v) for v in values])
        if whole is None:
            graph.fail(node, "the number is too large")
        return whole
    if met == "bool" and node.op in ("abs", "relu", "square", "floor"):
        return values[0]
    try:
        operands = [_cast(v, met) for v in values]
    except OverflowError:
        graph.fail(node, f"a number does not fit {dtype_name(met)}")
    with np.errstate(all="ignore"):
        found = np.asarray(ELEMENTWISE[node.op](*(np.asarray(v) for v in operands)))[()]
    return found.item() if result in WEAK else found


def _cast(value: Any, kind: str) -> Any:
    if kind == "int":
        return int(value)
    if kind == "float":
        return float(value)
    return np.dtype(dtype_name(kind)).type(value)


def _exactly(op: str, v: list[int]) -> int | float | None:
    """Whole numbers as Python has them; None: too large to go on with."""
    if op == "pow":
        if v[1] < 0:
            return float(np.power(float(v[0]), float(v[1])))
        bits = v[0].bit_length() * v[1] if abs(v[0]) > 1 else 1
        return v[0] ** v[1] if bits <= _MOST_BITS else None
    functions: dict[str, Any] = {
        "add": lambda: v[0] + v[1], "sub": lambda: v[0] - v[1], "mul": lambda: v[0] * v[1],
        "neg": lambda: -v[0], "abs": lambda: abs(v[0]), "relu": lambda: max(v[0], 0),
        "min": lambda: min(v), "max": lambda: max(v), "square": lambda: v[0] * v[0],
        "floor": lambda: v[0],
    }  # fmt: skip
    found: int = functions[op]()
    return found if found.bit_length() <= _MOST_BITS else None


def fitted(name: str, value: Any, kind: str) -> int | float:
    """A number as f32, f64 or i32 holds it; TypeError or ValueError with its name."""
    name = short(name)
    if kind == "i32":
        if isinstance(value, (float, np.floating)):
            raise TypeError(
                f"{name}: a whole number is wanted with int32 arrays, got {shown(value)}"
            )
        whole = int(value)
        if not -(2**31) <= whole < 2**31:
            raise ValueError(f"{name}: {shown(whole)} does not fit int32")
        return whole
    limit = float(np.finfo(np.float32 if kind == "f32" else np.float64).max)
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name}: it does not fit {kind}") from None
    if math.isfinite(number) and abs(number) > limit:
        raise ValueError(f"{name}: it does not fit {kind}")
    return number
