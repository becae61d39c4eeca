"""Arithmetic that users may type: sizes, groups, flops and bytes over axis names. Not Python,
never `eval`.

    N/256   2*m*n*k   max(1, N - 1)   4M   0x100   span(m, rs, n, cs)

K, M and G behind a number are 2**10, 2**20 and 2**30. Between integers `/` rounds up, as in the
extents of shaders/manifest.json (what a number of groups needs), `//` rounds down.
Called by axes.py, workloads.py, user_kernel.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from _console.problems import UsageError

Number = int | float

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[KMG])?(?![\w.])"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<op>\*\*|//|[-+*/%(),]))"
)
_SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LIMIT = 1 << 64
_DEEPEST = 64
_LONGEST = 40


def _span(n1: Number, s1: Number, n2: Number, s2: Number) -> Number:
    return 0 if n1 == 0 or n2 == 0 else (n1 - 1) * s1 + (n2 - 1) * s2 + 1


_FUNCTIONS: dict[str, tuple[int | None, Callable[..., Number]]] = {
    "min": (None, min),
    "max": (None, max),
    "span": (4, _span),
}


def evaluate(text: str, names: Mapping[str, Number] | None = None) -> Number:
    """The value of `text` with `names` bound. Raises UsageError naming the text and what is wrong
    with it.
    """
    return _Parser(text, names or {}).run()


def integer(text: str, names: Mapping[str, Number] | None = None) -> int:
    """As `evaluate`, but the value must be a whole number (1e6 is one). Raises UsageError."""
    value = evaluate(text, names)
    if abs(value) > _LIMIT:
        raise UsageError(f"expression {text!r}: the value is beyond 64 bits")
    if value != int(value):
        raise UsageError(f"{text!r} is {value}, a whole number is wanted")
    return int(value)


class _Parser:
    """Recursive descent over the tokens of one text; evaluates as it goes."""

    def __init__(self, text: str, names: Mapping[str, Number]) -> None:
        self.text, self.names, self.depth = text, names, 0
        self.tokens: list[tuple[str, str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.wrong(f"cannot read {text[at:].strip()!r}")
            kind = str(match.lastgroup if match.lastgroup != "suffix" else "number")
            self.tokens.append((kind, match[kind], match["suffix"] or ""))
            at = match.end()
        self.at = 0

    def wrong(self, why: str) -> UsageError:
        return UsageError(f"expression {self.text!r}: {why}")

    def run(self) -> Number:
        value = self.sum()
        if self.at < len(self.tokens):
            raise self.wrong(f"{self.tokens[self.at][1]!r} is one too many")
        return value

    def take(self, *ops: str) -> str | None:
        if self.at < len(self.tokens):
            kind, word, _ = self.tokens[self.at]
            if kind == "op" and word in ops:
                self.at += 1
                return word
        return None

    def expect(self, op: str) -> None:
        if not self.take(op):
            raise self.wrong(f"{op!r} is missing")

    def sum(self) -> Number:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.wrong("nested too deep")
        value = self.product()
        while op := self.take("+", "-"):
            other = self.product()
            value = self.bounded(value + other if op == "+" else value - other)
        self.depth -= 1
        return value

    def product(self) -> Number:
        value = self.signed()
        while op := self.take("*", "/", "//", "%"):
            other = self.signed()
            if op != "*" and other == 0:
                raise self.wrong("divides by zero")
            if op == "*":
                value = self.bounded(value * other)
            elif op == "%":
                value = self.bounded(value % other)
            elif op == "//":
                value = self.bounded(value // other)
            elif isinstance(value, int) and isinstance(other, int):
                value = -(-value // other)
            else:
                value = self.bounded(value / other)
        return value

    def signed(self) -> Number:
        negative = False
        while self.take("-"):
            negative = not negative
        value = self.power()
        return -value if negative else value

    def power(self) -> Number:
        value = self.atom()
        if self.take("**"):
            exponent = self.atom()
            if not 0 <= exponent <= 64 or abs(value) > _LIMIT:
                raise self.wrong(f"exponent {exponent} is not in 0..64")
            try:
                value = self.bounded(value**exponent)
            except OverflowError:
                raise self.wrong("the value is too large") from None
        return value

    def atom(self) -> Number:
        if self.take("("):
            value = self.sum()
            self.expect(")")
            return value
        if self.at == len(self.tokens) or self.tokens[self.at][0] == "op":
            raise self.wrong("a number or a name is missing")
        kind, word, suffix = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return self.number(word, suffix)
        if word in _FUNCTIONS and self.take("("):
            return self.call(word)
        if word not in self.names:
            known = ", ".join(sorted(self.names)) or "none"
            raise self.wrong(f"unknown name {word!r} (known: {known})")
        return self.names[word]

    def number(self, word: str, suffix: str) -> Number:
        if len(word) > _LONGEST:
            raise self.wrong(f"a number of {len(word)} characters")
        plain = word.isdigit() or word[:2] in ("0x", "0X")
        value: Number = int(word, 0 if word[:2] in ("0x", "0X") else 10) if plain else float(word)
        if suffix:
            value = self.bounded(value) * _SUFFIX[suffix]
            value = self.bounded(value)
            value = int(value) if value == int(value) else value
        return self.bounded(value)

    def call(self, name: str) -> Number:
        arity, function = _FUNCTIONS[name]
        values = [self.sum()]
        while self.take(","):
            values.append(self.sum())
        self.expect(")")
        if arity is not None and len(values) != arity:
            raise self.wrong(f"{name}() takes {arity} values, {len(values)} given")
        return self.bounded(function(*values))

    def bounded(self, value: Number) -> Number:
        if isinstance(value, int) and abs(value) > _LIMIT:
            raise self.wrong("the value is beyond 64 bits")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.wrong(f"the value is {value}")
        return value
