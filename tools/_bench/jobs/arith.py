"""Arithmetic that users type: sizes, groups, flops and bytes over names of axes. The text is not
Python and is never passed to `eval`.

    N/256   2*m*n*k   max(1, N - 1)   4M   0x100   span(m, rs, n, cs)
    BLOCK*UNROLL <= 1024 and not N % BLOCK   16 <= BLOCK < N or N == 1

K, M and G after a number mean 2**10, 2**20 and 2**30. Between integers `/` rounds up, as in the
extents of shaders/manifest.json, because numbers of groups need that; `//` rounds down. A
comparison is 1 or 0, and comparisons chain as in Python. For `and`, `or` and `not` every number but
0 is true. Called by axes.py, workloads.py, user_kernel.py, sweeps.py.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from _console.problems import UsageError

Number = int | float

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[KMG])?(?![\w.])"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<op>\*\*|//|[<>=!]=|[-+*/%(),<>]))"
)
_SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LIMIT = 1 << 64
_DEEPEST = 64
KEYWORDS = ("and", "or", "not")
_LONGEST = 40


def _span(n1: Number, s1: Number, n2: Number, s2: Number) -> Number:
    return 0 if n1 == 0 or n2 == 0 else (n1 - 1) * s1 + (n2 - 1) * s2 + 1


_FUNCTIONS: dict[str, tuple[int | None, Callable[..., Number]]] = {
    "min": (None, min),
    "max": (None, max),
    "span": (4, _span),
}
_COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    **{"==": operator.eq, "!=": operator.ne},
}


def evaluate(text: str, names: Mapping[str, Number] | None = None) -> Number:
    """Returns the value of `text` with `names` bound. Raises UsageError, which names the text and
    the error.
    """
    return _Parser(text, names or {}).run()


def integer(text: str, names: Mapping[str, Number] | None = None) -> int:
    """Returns the value of `text` as an int; 1e6 counts as a whole number. Raises UsageError for a
    value that is not whole.
    """
    value = evaluate(text, names)
    if abs(value) > _LIMIT:
        raise UsageError(
            f"expression {text!r}: expected a number that fits 64 bits, but the value is beyond 64 "
            "bits"
        )
    if value != int(value):
        raise UsageError(f"{text!r}: expected a whole number, got {value}")
    return int(value)


def names_in(text: str) -> set[str]:
    """Returns the names that the value of `text` depends on. Raises UsageError for an
    unreadable text.
    """
    tokens = [*_tokens(text), ("op", "", "")]
    return {
        word
        for (kind, word, _), (_, behind, _) in itertools.pairwise(tokens)
        if kind == "name" and behind != "("
    }


@lru_cache(maxsize=256)
def _tokens(text: str) -> tuple[tuple[str, str, str], ...]:
    """Returns (kind, word, suffix) of each token. `and`, `or` and `not` are operators."""
    found = []
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError(f"expression {text!r}: cannot read {text[at:].strip()!r}")
        kind = str(match.lastgroup if match.lastgroup != "suffix" else "number")
        word = match[kind]
        found.append(("op" if word in KEYWORDS else kind, word, match["suffix"] or ""))
        at = match.end()
    return tuple(found)


class _Parser:
    """A recursive-descent parser over the tokens of one text. It evaluates while it reads."""

    def __init__(self, text: str, names: Mapping[str, Number]) -> None:
        self.text, self.names, self.depth = text, names, 0
        # While this is above 0, the operand that is parsed cannot change the result, so its
        # arithmetic raises nothing. In "0 and 1/0", 1/0 is such an operand.
        self.idle = 0
        self.tokens = _tokens(text)
        self.at = 0

    def wrong(self, why: str) -> UsageError:
        return UsageError(f"expression {self.text!r}: {why}")

    def run(self) -> Number:
        value = self.either()
        if self.at < len(self.tokens):
            raise self.wrong(f"expected the end of the expression, got {self.tokens[self.at][1]!r}")
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
            raise self.wrong(f"expected {op!r}")

    def either(self) -> Number:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.wrong("the expression is nested too deep")
        value = self.both()
        while self.take("or"):
            other = self.unless(bool(value), self.both)
            value = int(bool(value) or bool(other))
        self.depth -= 1
        return value

    def both(self) -> Number:
        value = self.negated()
        while self.take("and"):
            other = self.unless(not value, self.negated)
            value = int(bool(value) and bool(other))
        return value

    def unless(self, decided: bool, read: Callable[[], Number]) -> Number:
        """Reads a part of an expression by `read` and returns its value. `decided` says that the
        result of the expression is known without this part, as in "0 and 1/0". The arithmetic of
        such a part raises nothing.
        """
        self.idle += decided
        value = read()
        self.idle -= decided
        return value

    def negated(self) -> Number:
        count = 0
        while self.take("not"):
            count += 1
        value = self.compared()
        return int(bool(value) == (count % 2 == 0)) if count else value

    def compared(self) -> Number:
        value = self.sum()
        truth: bool | None = None
        while op := self.take(*_COMPARISONS):
            other = self.sum()
            truth = truth is not False and _COMPARISONS[op](value, other)
            value = other
        return value if truth is None else int(truth)

    def sum(self) -> Number:
        value = self.product()
        while op := self.take("+", "-"):
            other = self.product()
            value = self.bounded(value + other if op == "+" else value - other)
        return value

    def product(self) -> Number:
        value = self.signed()
        while op := self.take("*", "/", "//", "%"):
            other = self.signed()
            if op != "*" and other == 0:
                if not self.idle:
                    raise self.wrong("divides by zero")
                value = 0
            elif op == "*":
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
            if self.idle:
                return 0
            if not 0 <= exponent <= 64 or abs(value) > _LIMIT:
                raise self.wrong(f"expected an exponent in 0..64, got {exponent}")
            try:
                value = self.bounded(value**exponent)
            except OverflowError:
                raise self.wrong(
                    "expected a number that fits a float64, but the value is too large"
                ) from None
        return value

    def atom(self) -> Number:
        if self.take("("):
            value = self.either()
            self.expect(")")
            return value
        if self.at == len(self.tokens) or self.tokens[self.at][0] == "op":
            raise self.wrong("expected a number or a name")
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
            raise self.wrong(
                f"expected a number of at most {_LONGEST} characters, got {len(word)} characters"
            )
        plain = word.isdigit() or word[:2] in ("0x", "0X")
        value: Number = int(word, 0 if word[:2] in ("0x", "0X") else 10) if plain else float(word)
        if suffix:
            value = self.bounded(value) * _SUFFIX[suffix]
            value = self.bounded(value)
            value = int(value) if value == int(value) else value
        return self.bounded(value)

    def call(self, name: str) -> Number:
        arity, function = _FUNCTIONS[name]
        values = [self.either()]
        while self.take(","):
            values.append(self.either())
        self.expect(")")
        if arity is not None and len(values) != arity:
            raise self.wrong(f"{name}(): expected {arity} values, got {len(values)}")
        return self.bounded(function(*values))

    def bounded(self, value: Number) -> Number:
        if self.idle:
            return 0
        if isinstance(value, int) and abs(value) > _LIMIT:
            raise self.wrong("expected a number that fits 64 bits, but the value is beyond 64 bits")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.wrong(f"expected a finite number, but the value is {value}")
        return value
