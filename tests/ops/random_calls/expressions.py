"""Random expressions for `map`: the text, and what numpy makes of it.

Each value comes with the largest magnitude on its way, which bounds its rounding. Comparisons are
of inputs alone: of computed values that are nearly equal, rounding would decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Values = dict[str, np.ndarray]
Pair = tuple[np.ndarray, np.ndarray]


@dataclass
class Expression:
    text: str
    evaluate: Callable[[Values], Pair]
    """Inputs -> (value, largest magnitude), in float64, or in int32 where all inputs are."""


def _unary(f):
    return lambda x: (f(x[0]), np.maximum(x[1], np.abs(f(x[0]))))


def _binary(f):
    def both(x, y):
        value = f(x[0], y[0])
        return value, np.maximum(np.maximum(x[1], y[1]), np.abs(value))

    return both


def _over(x, y):
    value = x[0] / (np.abs(y[0]) + 1)
    return value, np.maximum(np.maximum(x[1], np.abs(value)) * np.maximum(1, y[1]), 1)


WHOLE = (  # for int32 too
    ("({} + {})", _binary(np.add)),
    ("({} - {})", _binary(np.subtract)),
    ("min({}, {})", _binary(np.minimum)),
    ("max({}, {})", _binary(np.maximum)),
    ("relu({})", _unary(lambda x: np.maximum(x, 0))),
    ("abs({})", _unary(np.abs)),
    ("(-{})", _unary(np.negative)),
)
REAL = (
    *WHOLE,
    ("({} / (abs({}) + 1))", _over),
    ("tanh({})", _unary(np.tanh)),
    ("sigmoid({})", _unary(lambda x: 1 / (1 + np.exp(-np.clip(x, -700, 700))))),
    ("sqrt(abs({}) + 1)", _unary(lambda x: np.sqrt(np.abs(x) + 1))),
    ("log(abs({}) + 1)", _unary(lambda x: np.log(np.abs(x) + 1))),
    ("exp(min({}, 1))", _unary(lambda x: np.exp(np.minimum(x, 1)))),
    ("sin({})", _unary(np.sin)),
    ("cos({})", _unary(np.cos)),
)


def drawn(rng: np.random.Generator, names: list[str], real: bool) -> Expression:
    """An expression in which each name stands at least once."""
    found = [_name(name) for name in rng.permutation(names)]
    for _ in range(int(rng.integers(1, 5))):
        found.append(_step(rng, found, names, real))
    while len(found) > 1:
        found.append(_joined(found.pop(0), found.pop(0), real, rng))
    return found[0] if found[0].text not in names else _joined(found[0], found[0], real, rng)


def _name(name: str) -> Expression:
    return Expression(str(name), lambda values: (values[name], np.abs(values[name])))


def _step(rng, found: list[Expression], names: list[str], real: bool) -> Expression:
    if rng.random() < 0.2:
        x, y = (str(name) for name in rng.choice(names, 2))
        a, b = (found[rng.integers(len(found))] for _ in range(2))

        def chosen(values: Values) -> Pair:
            (p, big_p), (q, big_q) = a.evaluate(values), b.evaluate(values)
            return np.where(values[x] < values[y], p, q), np.maximum(big_p, big_q)

        return Expression(f"where({x} < {y}, {a.text}, {b.text})", chosen)
    if real and rng.random() < 0.2:
        a, number = found[rng.integers(len(found))], float(rng.integers(-8, 9)) / 4
        return Expression(
            f"({a.text} * {number})",
            lambda values: _binary(np.multiply)(a.evaluate(values), (number, abs(number))),
        )
    text, function = (REAL if real else WHOLE)[rng.integers(len(REAL if real else WHOLE))]
    parts = [found[rng.integers(len(found))] for _ in range(text.count("{}"))]
    return Expression(
        text.format(*(part.text for part in parts)),
        lambda values: function(*(part.evaluate(values) for part in parts)),
    )


def _joined(a: Expression, b: Expression, real: bool, rng) -> Expression:
    sign, function = (("+", np.add), ("-", np.subtract))[rng.integers(2)]
    return Expression(
        f"({a.text} {sign} {b.text})",
        lambda values: _binary(function)(a.evaluate(values), b.evaluate(values)),
    )
