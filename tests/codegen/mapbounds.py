"""Random expressions, and how far an f32 evaluation of one may be from its float64 value.

The bound is a running error analysis of the first order: each step takes over its operands' errors
as its derivative makes them, and adds its own rounding. Where a step is not smooth there (a sign or
a whole number that the error could change, values that f32 cannot hold), the element is not judged.
"""

from __future__ import annotations

import numpy as np

from sparkle_drv.ops.expression import grammar

EPS, TINY, MOST = 2.0**-24, 2.0**-149, 2.0**126
STEP = 4  # ulp that a step itself may be off
UNARY = ("neg", "abs", "relu", "exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos", "floor",
         "square")  # fmt: skip
LEAVES = ("a", "b", "c", "d", "e", "f", "g", "h", "s", "t", "0.5", "3", "-1.25")


def expression(rng, depth):
    """Text of an expression that nests `depth` operations."""
    if depth == 0 or rng.random() < 0.1:
        return str(rng.choice(LEAVES))
    op = str(rng.choice([*UNARY, *["+", "-", "*", "/", "min", "max", "pow"] * 2, "where"]))
    left = expression(rng, depth - 1)
    if op in UNARY:
        return f"-({left})" if op == "neg" else f"{op}({left})"
    right = expression(rng, rng.integers(0, depth))
    if op == "where":
        return f"where(({left}) {rng.choice([*grammar.COMPARISONS])} ({right}), {right}, {left})"
    return f"{op}({left}, {right})" if op.isalpha() else f"(({left}) {op} ({right}))"


def value_and_bound(text, values):
    """(float64 value, largest error, which elements can be judged)."""
    found = []
    n = max(np.size(v) for v in values.values())
    judged = np.ones(n, bool)
    with np.errstate(all="ignore"):
        for node in grammar.parse(text).nodes:
            if not node.args:
                given = values[node.value] if node.op == "name" else node.value
                value = np.broadcast_to(np.float64(np.float32(given)), n)
                found.append((value, np.zeros(n)))
                continue
            value, error, smooth = STEPS[node.op](*(found[a] for a in node.args))
            rounding = 2 * STEP * EPS * np.abs(value) + 2 * STEP * TINY
            # What is not finite in f64 either is: NaN and infinities come out as such.
            found.append((value, np.where(np.isfinite(value), error + rounding, 0)))
            held = np.abs(value) < MOST
            judged &= smooth & (held | ~np.isfinite(value))
            judged &= ~(np.isfinite(value) & ~(error < 0.01 * np.abs(value) + 1e-3))
    value, error = found[-1]
    return np.broadcast_to(value, n), error, judged


def _clear(x, ex):
    """The error cannot change the sign."""
    return (np.abs(x) > 2 * ex) | (ex == 0) | np.isnan(x)


def _pow(x, ex, y, ey):
    value = np.power(x, y)
    slope = np.abs(y * value / x) * ex + np.abs(np.log(np.abs(x)) * value) * ey
    # 1 to any power is 1, anything to the power 0, NaN too: were that 1 or 0 exact?
    fixed = ((ey == 0) | (x > 0)) & ((ex + ey == 0) | ~np.isnan(x + y))
    return value, np.where((ex == 0) & (ey == 0), 0, slope), _clear(x, ex) & fixed


def _picked(op):
    def step(a, b):
        (x, ex), (y, ey) = a, b
        return op(x, y), np.maximum(ex, ey), np.isfinite(x) & np.isfinite(y) | (ex + ey == 0)

    return step


def _smooth(function, slope):
    def step(a):
        x, ex = a
        return function(x), np.where(ex == 0, 0, np.abs(slope(x)) * ex), np.isfinite(x) | (ex == 0)

    return step


def _cleared(function, slope):
    smooth = _smooth(function, slope)

    def step(a):
        value, error, fine = smooth(a)
        return value, error, fine & _clear(*a)

    return step


def _divide(a, b):
    (x, ex), (y, ey) = a, b
    return x / y, (ex + np.abs(x / y) * ey) / np.abs(y), _clear(y, ey)


def _compared(op):
    def step(a, b):
        (x, ex), (y, ey) = a, b
        known = (ex + ey == 0) | (np.abs(x - y) > 2 * (ex + ey)) | np.isnan(x) | np.isnan(y)
        return op(x, y).astype(np.float64), np.zeros_like(x), known

    return step


def _where(c, a, b):
    (x, ex), (y, ey) = a, b
    return np.where(c[0] != 0, x, y), np.where(c[0] != 0, ex, ey), np.ones_like(x, bool)


def _floor(a):
    x, ex = a
    near = np.abs(x - np.round(x)) > 2 * ex
    return np.floor(x), np.zeros_like(x), near | (ex == 0)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


_COMPARED = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal",
}  # fmt: skip
STEPS = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1], True),
    "sub": lambda a, b: (a[0] - b[0], a[1] + b[1], True),
    "mul": lambda a, b: (a[0] * b[0], np.abs(a[0]) * b[1] + np.abs(b[0]) * a[1], True),
    "div": _divide,
    "min": _picked(np.minimum),
    "max": _picked(np.maximum),
    "where": _where,
    **{op: _compared(getattr(np, name)) for op, name in _COMPARED.items()},
    "pow": lambda a, b: _pow(*a, *b),
    "neg": _smooth(np.negative, np.ones_like),
    "abs": _smooth(np.abs, np.ones_like),
    "relu": _smooth(lambda x: np.maximum(x, 0), np.ones_like),
    "exp": _smooth(np.exp, np.exp),
    "log": _cleared(np.log, lambda x: 1 / x),
    "sqrt": _cleared(np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "tanh": _smooth(np.tanh, np.ones_like),
    "sigmoid": _smooth(_sigmoid, lambda x: np.full_like(x, 0.25)),
    "sin": _smooth(np.sin, np.ones_like),
    "cos": _smooth(np.cos, np.ones_like),
    "floor": _floor,
    "square": _smooth(np.square, lambda x: 2 * x),
}
