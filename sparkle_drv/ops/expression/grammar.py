"""The grammar of `map`: from the text "relu(a*x + y)" to a postfix list of steps.

A tokenizer and a Pratt parser that emits postfix as it goes, so that a chain of any length needs no
tree and no recursion; only nesting recurses, and nesting is limited. Nothing here is ever evaluated
by Python. What a step means on a device is `program.py`'s and `typed.py`'s business, what it means
in float64 is ref's. Called by those and by `graph.py`.

    whole   = sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)?       # no chains
    sum     = product (("+" | "-") product)*
    product = unary (("*" | "/") unary)*
    unary   = ("-" | "+") unary | power
    power   = atom ("**" unary)?             # as in Python: -x**2 is -(x**2), x**-1 is fine
    atom    = number | name | function "(" whole ("," whole)* ")" | "(" whole ")"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

from sparkle_drv.ops.arguments.words import short, shown

# Operations by the name they have in a step, and how many operands each takes.
ARITY = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2, "min": 2, "max": 2,
    "neg": 1, "abs": 1, "relu": 1, "exp": 1, "log": 1, "sqrt": 1, "tanh": 1, "sigmoid": 1,
    "sin": 1, "cos": 1, "floor": 1, "square": 1,
    "lt": 2, "le": 2, "gt": 2, "ge": 2, "eq": 2, "ne": 2, "where": 3,
}  # fmt: skip
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
FUNCTIONS = tuple(sorted(set(ARITY) - {"add", "sub", "mul", "div", *COMPARISONS.values()}))

MAX_TEXT = 1 << 16  # characters of an expression
MAX_NESTING = 128  # parentheses, calls, signs and exponents inside one another
_COMPARED = 5
_INFIX = {
    **{sign: (op, _COMPARED) for sign, op in COMPARISONS.items()},
    **{"+": ("add", 10), "-": ("sub", 10), "*": ("mul", 20), "/": ("div", 20), "**": ("pow", 40)},
}
_UNARY = 30
_QUOTED = 72  # how much of a long expression an error quotes
_ABSENT = {"//": "floor(x / y)", "%": "x - y * floor(x / y)", "&": "a product", "|": "a sum"}

_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<absent>//|<<|>>|&&|\|\||[%&|^~@])"
    r"|(?P<sign>\*\*|[<>=!]=|[-+*/(),<>])"
    r"|(?P<space>\s+)"
)


@dataclass(frozen=True)
class Step:
    """One postfix step.

    `op` is "name" (value: the name), "number" (value: int or float) or a key of ARITY.
    """

    op: str
    value: str | int | float
    at: int  # where in the text it stands, for error messages


@dataclass(frozen=True)
class Expression:
    """A parsed expression.

    `names` are in order of first appearance, `depth` is the stack that the steps need.
    """

    text: str
    names: tuple[str, ...]
    steps: tuple[Step, ...]
    depth: int


def fail(text: str, at: int, what: str) -> NoReturn:
    """Raises ValueError that says `what` and shows the place in the expression."""
    start = max(0, min(at - _QUOTED // 2, len(text) - _QUOTED))
    shown = re.sub(r"\s", " ", text[start : start + _QUOTED])
    left, right = "..." if start else "", "..." if start + _QUOTED < len(text) else ""
    caret = " " * (len(left) + at - start) + "^"
    raise ValueError(f"expression: {what}\n    {left}{shown}{right}\n    {caret}")


@lru_cache(maxsize=512)
def parse(text: str) -> Expression:
    """Parses `text`; ValueError with a caret under the place that makes no sense."""
    return _Parser(text).expression()


def outline(text: str) -> str:
    """`text` with "#" for its numbers and without spaces: what expressions that cost the same have
    in common. One with a power keeps its numbers, because an exponent decides what is computed.
    """
    tokens = _tokens(text)
    if any(token.text in ("**", "pow") for token in tokens):
        return "".join(token.text for token in tokens)
    return "".join("#" if token.kind == "number" else token.text for token in tokens)


@dataclass(frozen=True)
class _Token:
    kind: str  # "number" "name" "sign" "end"
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    if len(text) > MAX_TEXT:
        fail(text, 0, f"it has {len(text)} characters, and {MAX_TEXT} are possible")
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            fail(text, at, f"the character {text[at]!r} has no meaning here")
        kind = str(match.lastgroup)
        if kind == "absent":
            instead = _ABSENT.get(match.group())
            hint = f"; {instead} does it" if instead else ""
            fail(text, at, f"there is no operator {match.group()}{hint}")
        if kind != "space":
            found.append(_Token(kind, match.group(), at))
        at = match.end()
    found.append(_Token("end", "", len(text)))
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.next = 0
        self.nesting = 0
        self.steps: list[Step] = []
        self.height = 0
        self.depth = 0
        self.names: dict[str, None] = {}  # a dict keeps the order of first appearance

    def expression(self) -> Expression:
        if self.peek.kind == "end":
            fail(self.text, 0, "it is empty")
        self.operand(0)
        if self.peek.kind != "end":
            got = shown(self.peek.text)
            fail(self.text, self.peek.at, f"an operator or the end was expected, not {got}")
        return Expression(self.text, tuple(self.names), tuple(self.steps), self.depth)

    @property
    def peek(self) -> _Token:
        return self.tokens[self.next]

    def take(self) -> _Token:
        token = self.tokens[self.next]
        self.next += 1
        return token

    def emit(self, op: str, value: str | int | float, at: int) -> None:
        self.height += 1 - ARITY.get(op, 0)
        self.depth = max(self.depth, self.height)
        self.steps.append(Step(op, value, at))

    def operand(self, least: int, deeper: int = 1) -> None:
        """Parses what binds at least as strongly as `least`, and emits it."""
        self.nesting += deeper
        if self.nesting > MAX_NESTING:
            fail(self.text, self.peek.at, f"it is nested more than {MAX_NESTING} deep")
        self.prefix()
        while self.peek.kind == "sign" and self.peek.text in _INFIX:
            op, binding = _INFIX[self.peek.text]
            if binding < least:
                break
            at = self.take().at
            compared = binding == _COMPARED
            start = len(self.steps)
            # x + (x + (x + ... is as deep as its parentheses: between two of them at most a sum and
            # a product recurse, so they need not count.
            self.operand(*((_UNARY, 1) if op == "pow" else (binding + 1, 0)))
            self.binary(op, start, at)
            if compared and self.peek.text in COMPARISONS:
                fail(self.text, self.peek.at, "comparisons do not chain: write (a < b) * (b < c)")
        self.nesting -= deeper

    def binary(self, op: str, right: int, at: int) -> None:
        """Emits `op`, whose second operand began at step `right`; x**2 as a product (not x**2.0,
        which makes a float of a whole number).
        """
        last = self.steps[-1]
        alone = len(self.steps) == right + 1 and last.op == "number"
        if op == "pow" and alone and last.value == 2 and isinstance(last.value, int):
            self.steps.pop()
            self.height -= 1
            op = "square"
        self.emit(op, "", at)

    def prefix(self) -> None:
        token = self.take()
        if token.kind == "number":
            self.number(token)
        elif token.kind == "name":
            self.name(token)
        elif token.text == "(":
            self.operand(0)
            self.close(token, "'('")
        elif token.text == "-":
            self.minus(token)
        elif token.text == "+":
            self.operand(_UNARY)
        else:
            got = shown(token.text) if token.text else "the end"
            fail(self.text, token.at, f"a number, a name or '(' was expected, not {got}")

    def number(self, token: _Token) -> None:
        value = float(token.text)
        if value == float("inf"):
            fail(self.text, token.at, "the number is too large")
        # Kept whole where it was written whole: i32 takes no other, and has more digits than f32.
        self.emit("number", int(token.text) if token.text.isdigit() else value, token.at)

    def minus(self, token: _Token) -> None:
        start = len(self.steps)
        self.operand(_UNARY)
        last = self.steps[-1]
        if len(self.steps) == start + 1 and last.op == "number":
            # -5 is a number: i32 can say -2147483648, and no step is spent.
            self.steps[-1] = Step("number", -last.value, token.at)  # type: ignore[operator]
        else:
            self.emit("neg", "", token.at)

    def name(self, token: _Token) -> None:
        called = self.peek.text == "("
        if token.text in FUNCTIONS:
            if not called:
                fail(self.text, token.at, f"{token.text} is a function: write {token.text}(...)")
            self.call(token)
        elif called:
            known = " ".join(FUNCTIONS)
            fail(
                self.text, token.at, f"there is no function {short(token.text)}; there are {known}"
            )
        else:
            self.names[token.text] = None
            self.emit("name", token.text, token.at)

    def call(self, function: _Token) -> None:
        opened = self.take()
        wanted, given = ARITY[function.text], 0
        start = len(self.steps)
        if self.peek.text != ")":
            while True:
                start = len(self.steps)
                self.operand(0)
                given += 1
                if self.peek.text != ",":
                    break
                self.take()
        self.close(opened, f"the arguments of {function.text}")
        if given != wanted:
            what = f"{function.text} takes {wanted} argument(s), {given} given"
            fail(self.text, function.at, what)
        if wanted == 2:
            self.binary(function.text, start, function.at)
        else:
            self.emit(function.text, "", function.at)

    def close(self, opened: _Token, what: str) -> None:
        if self.peek.text != ")":
            got = shown(self.peek.text) if self.peek.text else "the end"
            fail(self.text, self.peek.at, f"')' was expected after {what}, not {got}")
        self.take()
