"""Evaluates an expression of `map` in float64 and bounds the error of a device that rounds each
step: a running error analysis. Pure.

Each step has a value and a bound of its error. Sums add the bounds of their operands; products and
quotients weigh them. A function is evaluated at both ends of its interval. Each step adds its own
rounding. The bound is infinite where a comparison or floor may go either way within it, or where a
step leaves the range of the type. N. J. Higham, Accuracy and Stability of Numerical Algorithms,
section 3.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv.ops import ref
from sparkle_drv.ops.expression import grammar
from sparkle_drv.ops.expression.elementwise import COMPARISONS

Array = npt.NDArray[Any]
Pair = tuple[Array, Array]
"""Values and the bounds of their errors."""

ROUND, FUNCTION = 2.0, 64.0
"""Rounding errors in eps. ROUND: one operation, twice eps for a division by a reciprocal. FUNCTION:
a call, as in ops/ref/close.py ("map")."""
JUMPS = ("lt", "le", "gt", "ge", "eq", "ne")


def evaluate(text: str, values: Mapping[str, Any], dtype: Any) -> Pair:
    """(values, error bounds) of `text`, both float64 [n], as a device computes them in `dtype`.

    `values` has arrays [n] and numbers by name.
    """
    length = max((np.size(v) for v in values.values()), default=1)
    eps, most = float(np.finfo(dtype).eps), float(np.finfo(dtype).max)
    tiny = float(np.finfo(dtype).tiny)
    found: list[Pair] = []
    with np.errstate(all="ignore"):
        for step in grammar.parse(text).nodes:
            if not step.args:
                given = values[str(step.value)] if step.op == "name" else step.value
                value = np.broadcast_to(np.asarray(given, np.float64), (length,))
                exact = value == value.astype(dtype)
                found.append((value, np.where(exact | np.isnan(value), 0.0, eps * np.abs(value))))
                continue
            operands = [found[a] for a in step.args]
            value = _at(step.op, [v for v, _ in operands])
            if step.truth:
                value = np.minimum(value, 1.0)  # a sum of truths is "or"
            bound = _bound(step.op, operands, value, eps) + np.where(value == 0, 0.0, tiny)
            finite = np.isfinite(value)
            if not finite.all():  # certain only if the whole interval gives the same
                bound = np.where(finite, bound, np.where(_moved(step.op, operands) == 0, 0, np.inf))
            # Beyond the range of the type the device has an infinity; what follows is unknown.
            over = finite & (np.abs(value) > most / 2)
            found.append((value, np.where(over | np.isnan(bound), np.inf, bound)))
    return found[-1]


def _at(op: str, values: list[Array]) -> Array:
    names = ("p", "q", "r")[: len(values)]
    sign = _SIGNS.get(op)
    if sign is not None:
        text = f"p {sign} q"
    else:
        text = "-p" if op == "neg" else f"{op}({', '.join(names)})"
    return np.asarray(ref.map(text, **dict(zip(names, values, strict=True))), np.float64)


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/",
          **{op: sign for sign, op in COMPARISONS.items()}}  # fmt: skip


def _bound(op: str, operands: list[Pair], value: Array, eps: float) -> Array:
    if op == "where":
        (c, ec), (_, ea), (_, eb) = operands
        open_ = (ec > 0) & (np.abs(c) <= ec)
        return np.where(open_, np.inf, np.where(c != 0, ea, eb))
    if op in JUMPS:
        (a, ea), (b, eb) = operands
        return np.where((ea + eb > 0) & (np.abs(a - b) <= ea + eb), np.inf, 0.0)
    if op == "floor":
        ((a, ea),) = operands
        return np.where((ea > 0) & (np.floor(a - ea) != np.floor(a + ea)), np.inf, 0.0)
    if op in ("add", "sub", "min", "max"):
        return np.asarray(operands[0][1] + operands[1][1] + ROUND * eps * np.abs(value))
    if op == "mul":
        (a, ea), (b, eb) = operands
        return np.asarray(np.abs(a) * eb + np.abs(b) * ea + ea * eb + ROUND * eps * np.abs(value))
    if op in ("neg", "abs", "relu"):
        return operands[0][1]
    far = _moved(op, operands)
    if op in ("sin", "cos"):  # the ends of the interval may lie in different periods
        far = np.minimum(operands[0][1] + 1e-6 * np.abs(operands[0][0]), 2.0)
    if op == "div":
        divisor, off = operands[1]
        far = np.where((off > 0) & (np.abs(divisor) <= off), np.inf, far)
    return far + FUNCTION * eps * _scale(op, [v for v, _ in operands], value)


def _scale(op: str, values: list[Array], value: Array) -> Array:
    """The magnitude that a function's own error is relative to."""
    size = np.abs(value)
    if op in ("sin", "cos", "log", "tanh"):  # near a zero the relative error is large
        return np.maximum(size, 1.0)
    if op == "exp":  # implementations scale by powers of two
        return np.asarray(size * (1 + np.abs(values[0])))
    if op == "pow":
        base = np.abs(values[0]) + (values[0] == 0)
        return np.asarray(size * (1 + np.abs(values[1] * np.log(base))))
    return size


def _moved(op: str, operands: list[Pair]) -> Array:
    """The largest change of a step within the bounds of its operands, measured at the corners.

    inf where one corner gives a number and another gives none.
    """
    middle = _at(op, [v for v, _ in operands])
    far = np.zeros_like(middle)
    for ends in itertools.product((-1.0, 1.0), repeat=len(operands)):
        there = _at(op, [v + s * e if e.any() else v
                         for s, (v, e) in zip(ends, operands, strict=True)])  # fmt: skip
        same = (there == middle) | (np.isnan(there) & np.isnan(middle))
        off = np.abs(there - middle)
        far = np.maximum(far, np.where(same, 0.0, np.where(np.isnan(off), np.inf, off)))
    return far
