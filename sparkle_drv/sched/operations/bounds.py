"""Evaluates an expression of `map` in float64, and bounds the error of a device that rounds each
step: a running error analysis. All functions are pure.

Each step has a value and a bound of its error, which together form an interval. A sum adds the
bounds of its operands; a product or quotient weighs them. A function is evaluated at both ends of
its operand's interval. Each step adds its own rounding.

The bound is infinite where a comparison or floor may go either way within the interval. It is also
infinite where a step leaves the range of the type. Source: N. J. Higham, Accuracy and Stability of
Numerical Algorithms, section 3.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv.ops import ref
from sparkle_drv.ops.expression import scalars
from sparkle_drv.ops.expression.elementwise import COMPARISONS
from sparkle_drv.ops.expression.graph import Graph

Array = npt.NDArray[Any]
Pair = tuple[Array, Array]
"""Values, and the bounds of their errors."""

ROUND, FUNCTION = 2.0, 64.0
"""Largest rounding errors, in units of eps. ROUND is for one operation; it is twice eps because a
division may multiply by a reciprocal. FUNCTION is for a call such as exp; ops/ref/tolerances.py
("map") has the same limit.
"""
JUMPS = ("lt", "le", "gt", "ge", "eq", "ne")


def evaluate(graph: Graph, values: Mapping[str, Any], *dtypes: Any) -> Pair:
    """Returns the values of an expression and the bounds of their errors, two float64 arrays [n].

    A device computes each step in one of `dtypes`. These are one or more floating-point types, and
    may be signed integer types besides. A bound is the largest error that the device may then make.
    `values` maps names to arrays [n] and numbers. A step of numbers alone is computed in the type
    of those numbers, as in a map.
    """
    length = max((np.size(v) for v in values.values()), default=1)
    single = scalars.values(graph, {n: v for n, v in values.items() if not np.ndim(v)})
    floats = [np.finfo(t) for t in dtypes if np.dtype(t).kind == "f"]
    whole = [np.iinfo(t) for t in dtypes if np.dtype(t).kind == "i"]
    most = min(float(t.max) for t in (*floats, *whole))
    dtype = max(floats, key=lambda t: float(t.eps)).dtype
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    steps: list[Pair] = []
    with np.errstate(all="ignore"):
        for i, step in enumerate(graph.nodes):
            if i in single or not step.args:
                given = single[i] if i in single else values[str(step.value)]
                value = np.broadcast_to(np.asarray(given, np.float64), (length,))
                exact = value == value.astype(dtype)
                steps.append((value, np.where(exact | np.isnan(value), 0.0, eps * np.abs(value))))
                continue
            operands = [steps[a] for a in step.args]
            value = _at(step.op, [v for v, _ in operands])
            if step.truth:
                # a sum of truths (0 or 1) means "or", so it is at most 1
                value = np.minimum(value, 1.0)
            sure = (value == 0) & ~_signed(step.op, operands)
            bound = _bound(step.op, operands, value, eps) + np.where(sure, 0.0, tiny)
            finite = np.isfinite(value)
            # An infinite or NaN result is certain only if all values within the operands' bounds
            # give the same result.
            if not finite.all():
                bound = np.where(finite, bound, np.where(_moved(step.op, operands) == 0, 0, np.inf))
            # Beyond the range of the type the device computes an infinity or wraps around. Then the
            # error of this step has no bound, and that of later steps has none either.
            over = finite & (np.abs(value) > most / 2)
            # Only `where` may ignore an operand: the one that it does not choose. Any other step
            # has no bound if one of its operands has none.
            if step.op != "where":
                over |= np.isinf(sum(off for _, off in operands))
            steps.append((value, np.where(over | np.isnan(bound), np.inf, bound)))
    return steps[-1]


def _signed(op: str, operands: list[Pair]) -> Array:
    """Returns where a zero may have either sign: where the step chooses among operands and one of
    them is -0.0. Devices may then choose -0.0 or 0.0.
    """
    chooses = op in ("relu", "min", "max")
    found = [chooses & (v == 0) & np.signbit(v) for v, _ in operands]
    return np.asarray(np.logical_or.reduce(found))


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
    # The ends of the operand's interval may lie in different periods. The function may then change
    # more between them than at them.
    if op in ("sin", "cos"):
        far = np.minimum(operands[0][1] + 1e-6 * np.abs(operands[0][0]), 2.0)
    if op == "div":
        divisor, off = operands[1]
        far = np.where((off > 0) & (np.abs(divisor) <= off), np.inf, far)
    return far + FUNCTION * eps * _scale(op, [v for v, _ in operands], value)


def _scale(op: str, values: list[Array], value: Array) -> Array:
    """Returns the magnitude that the rounding error of a function is proportional to."""
    size = np.abs(value)
    # Near a zero of the function its relative error is large, so the error counts as absolute.
    if op in ("sin", "cos", "log", "tanh"):
        return np.maximum(size, 1.0)
    # exp and pow are computed as 2**t. The rounding error of t is proportional to |t|, and becomes
    # a relative error of the result.
    if op == "exp":
        return np.asarray(size * (1 + np.abs(values[0])))
    if op == "pow":
        base = np.abs(values[0]) + (values[0] == 0)
        return np.asarray(size * (1 + np.abs(values[1] * np.log(base))))
    return size


def _moved(op: str, operands: list[Pair]) -> Array:
    """Returns the largest change of a step's value when each operand moves to an end of its
    interval.

    The change is inf where some ends give a number and others give NaN.
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
