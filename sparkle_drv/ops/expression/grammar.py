"""The grammar of `map`: parses a text such as "relu(a*x + y)" into a graph.

A tokenizer feeds a Pratt parser that adds nodes as it reads. So a chain of any length needs no
recursion. Only nested parts recurse, and the depth of nesting is limited. Python never evaluates
the text. program.py and typed.py define what a step computes on a device, ref what it computes in
float64. map and ref call this.

    whole   = sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)?       # no chains
    sum     = product (("+" | "-") product)*
    product = unary (("*" | "/") unary)*
    unary   = ("-" | "+") unary | power
    power   = atom ("**" unary)?             # as in Python: -x**2 is -(x**2), x**-1 is fine
    atom    = number | name | function "(" whole ("," whole)* ")" | "(" whole ")"
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, NoReturn

from sparkle_drv.ops.arguments.quoting import short, shown

from .elementwise import ARITY, COMPARISONS
from .graph import Builder, Graph, placed

FUNCTIONS = tuple(sorted(set(ARITY) - {"add", "sub", "mul", "div", *COMPARISONS.values()}))

MAX_TEXT = 1 << 16  # largest number of characters of an expression
MAX_NESTING = 128  # largest depth of nested parentheses, calls, signs and exponents
_COMPARED = 5
_INFIX = {
    **{sign: (op, _COMPARED) for sign, op in COMPARISONS.items()},
    **{"+": ("add", 10), "-": ("sub", 10), "*": ("mul", 20), "/": ("div", 20), "**": ("pow", 40)},
}
SIGNS = {op: sign for sign, (op, _) in _INFIX.items()}
"""The operations that are written between their operands."""
_UNARY = 30
_ABSENT = {"//": "floor(x / y)", "%": "x - y * floor(x / y)", "&": "a product", "|": "a sum"}

_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<absent>//|<<|>>|&&|\|\||[%&|^~@])"
    r"|(?P<sign>\*\*|[<>=!]=|[-+*/(),<>])"
    r"|(?P<space>\s+)"
    r"|(?P<strange>.)"
)


@lru_cache(maxsize=512)
def parse(text: str) -> Graph:
    """Returns the graph of `text`. Raises ValueError with a caret under the invalid place."""
    return _Parser(text).graph()


class _Token(NamedTuple):
    kind: str  # "number", "name", "sign" or "end"
    text: str
    at: int


def _fail(text: str, at: int, what: str) -> NoReturn:
    raise ValueError(placed(text, at, what))


def _tokens(text: str) -> list[_Token]:
    if len(text) > MAX_TEXT:
        _fail(text, 0, f"expected at most {MAX_TEXT} characters, got {len(text)}")
    tokens: list[_Token] = []
    for match in _TOKEN.finditer(text):
        token = _Token(str(match.lastgroup), match.group(), match.start())
        if token.kind == "strange":
            _fail(text, token.at, f"unexpected character {token.text!r}")
        if token.kind == "absent":
            instead = _ABSENT.get(token.text)
            hint = f"; write {instead}" if instead else ""
            _fail(text, token.at, f"there is no operator {token.text}{hint}")
        if token.kind != "space":
            tokens.append(token)
    return [*tokens, _Token("end", "", len(text))]


class _Parser:
    """The parser of one text. Each method that reads returns the number of the node it added."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = iter(_tokens(text))
        self.ahead = next(self.tokens)
        self.nesting = 0
        self.builder = Builder()
        self.names: dict[str, None] = {}  # a dict keeps the order of first appearance

    def graph(self) -> Graph:
        if self.ahead.kind == "end":
            self.fail(0, "expected an expression, got an empty text")
        root = self.operand(0)
        if self.ahead.kind != "end":
            self.unexpected(self.ahead, "expected an operator or the end")
        return self.builder.graph(root, tuple(self.names), self.text)

    def take(self) -> _Token:
        taken, self.ahead = self.ahead, next(self.tokens, self.ahead)
        return taken

    def fail(self, at: int, what: str) -> NoReturn:
        _fail(self.text, at, what)

    def unexpected(self, token: _Token, wanted: str) -> NoReturn:
        self.fail(token.at, f"{wanted}, got {shown(token.text) if token.text else 'the end'}")

    def operand(self, least: int, deeper: int = 1) -> int:
        """Reads an operand, up to the first operator that binds less strongly than `least`.

        `deeper` is how many levels deeper this operand is nested than the text around it.
        """
        self.nesting += deeper
        if self.nesting > MAX_NESTING:
            self.fail(self.ahead.at, f"it is nested more than {MAX_NESTING} deep")
        left = self.prefix()
        while self.ahead.text in _INFIX:
            op, binding = _INFIX[self.ahead.text]
            if binding < least:
                break
            at = self.take().at
            # Only parentheses, signs and powers count as nesting. Each of them adds at most three
            # more levels of recursion: a comparison, a sum and a product.
            right = self.operand(*((_UNARY, 1) if op == "pow" else (binding + 1, 0)))
            left = self.builder.add(op, (left, right), at=at)
            if binding == _COMPARED and self.ahead.text in COMPARISONS:
                self.fail(self.ahead.at, "comparisons do not chain: write (a < b) * (b < c)")
        self.nesting -= deeper
        return left

    def prefix(self) -> int:
        token = self.take()
        if token.kind == "number":
            return self.number(token)
        if token.kind == "name":
            return self.name(token)
        if token.text == "(":
            inner = self.operand(0)
            self.close("'('")
            return inner
        if token.text == "-":
            return self.minus(token)
        if token.text == "+":
            return self.operand(_UNARY)
        self.unexpected(token, "expected a number, a name or '('")

    def number(self, token: _Token) -> int:
        value = float(token.text)
        if value == float("inf"):
            self.fail(token.at, "the number is too large")
        # A whole number stays an int, because maps in i32 take only ints, and a float in f32 has
        # fewer digits than i32.
        whole = int(token.text) if token.text.isdigit() else value
        return self.builder.add("number", (), whole, token.at)

    def minus(self, token: _Token) -> int:
        inner = self.operand(_UNARY)
        node = self.builder.nodes[inner]
        if isinstance(node.value, str):
            return self.builder.add("neg", (inner,), at=token.at)
        # -5 is a number, not a negation of 5: i32 has -2147483648 but not 2147483648, and a
        # negation would cost a step.
        return self.builder.add("number", (), -node.value, token.at)

    def name(self, token: _Token) -> int:
        if self.ahead.text == "(":
            return self.call(token)
        if token.text in FUNCTIONS:
            self.fail(token.at, f"{token.text} is a function: write {token.text}(...)")
        self.names[token.text] = None
        return self.builder.add("name", (), token.text, token.at)

    def call(self, function: _Token) -> int:
        if function.text not in FUNCTIONS:
            known = " ".join(FUNCTIONS)
            self.fail(function.at, f"there is no function {short(function.text)}; known: {known}")
        self.take()
        args = [] if self.ahead.text == ")" else [self.operand(0)]
        while self.ahead.text == ",":
            self.take()
            args.append(self.operand(0))
        self.close(f"the arguments of {function.text}")
        wanted = ARITY[function.text]
        if len(args) != wanted:
            what = f"{function.text}: expected {wanted} argument(s), got {len(args)}"
            self.fail(function.at, what)
        return self.builder.add(function.text, tuple(args), at=function.at)

    def close(self, what: str) -> None:
        if self.ahead.text != ")":
            self.unexpected(self.ahead, f"expected ')' after {what}")
        self.take()
