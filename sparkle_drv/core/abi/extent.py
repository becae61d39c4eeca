"""Sizes in terms of a kernel's integer arguments: "m*k", "n/256", "span(m, rsa, k, csa)".

A grammar of + - * / (rounding up), parentheses and span(n1, s1, n2, s2), the elements from the
first to the last of a strided matrix. Compiled to the postfix program of sp_cmd.h, which native
code runs to check buffers; `value` runs it here, to compute a grid. The two are compared by
tests/core/test_signature.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sparkle_drv._native import lib

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|([-+*/(),]))")
_BINARY = {"+": (1, "ADD"), "-": (1, "SUB"), "*": (2, "MUL"), "/": (2, "DIV")}
_OPERATIONS = {
    lib.SP_EXTENT_ADD: lambda a, b: a + b,
    lib.SP_EXTENT_SUB: lambda a, b: max(a - b, 0),
    lib.SP_EXTENT_MUL: lambda a, b: a * b,
    lib.SP_EXTENT_DIV: lambda a, b: -(-a // b),
}


class Extent:
    """`steps` is the postfix program of `text`; `names` has the index of each integer argument.

    Raises ValueError for what cannot be read and for other names.
    """

    def __init__(self, text: str, names: Mapping[str, int]) -> None:
        self.text, self.names = text, names
        self.steps: list[tuple[int, int]] = []
        self.tokens = self._tokens()
        self._expression(0)
        if self.tokens:
            raise ValueError(f"extent {text!r}: {self.tokens[0]!r} is one too many")

    def _tokens(self) -> list[str]:
        tokens, at = [], 0
        while self.text[at:].strip():
            found = _TOKEN.match(self.text, at)
            if not found:
                raise ValueError(f"extent {self.text!r}: cannot read {self.text[at:]!r}")
            tokens.append(found.group().strip())
            at = found.end()
        return tokens

    def _take(self, wanted: str = "") -> str:
        token = self.tokens.pop(0) if self.tokens else ""
        if not token or (wanted and token != wanted):
            raise ValueError(
                f"extent {self.text!r}: expected {wanted or 'a value'}, got {token or 'the end'}"
            )
        return token

    def _expression(self, floor: int) -> None:
        self._value()
        while self.tokens and self.tokens[0] in _BINARY and _BINARY[self.tokens[0]][0] > floor:
            rank, op = _BINARY[self._take()]
            self._expression(rank)
            self.steps.append((getattr(lib, f"SP_EXTENT_{op}"), 0))

    def _value(self) -> None:
        token = self._take()
        if token == "(":
            self._expression(0)
            self._take(")")
        elif token == "span":
            for i in range(4):
                self._take("," if i else "(")
                self._expression(0)
            self._take(")")
            self.steps.append((lib.SP_EXTENT_SPAN, 0))
        elif token.isdigit():
            self.steps.append((lib.SP_EXTENT_CONST, int(token)))
        elif token in self.names:
            self.steps.append((lib.SP_EXTENT_ARG, self.names[token]))
        else:
            known = ", ".join(self.names) or "none"
            raise ValueError(
                f"extent {self.text!r}: {token!r} is no integer argument; known: {known}"
            )

    @property
    def arguments(self) -> set[int]:
        """The arguments that it names, by position."""
        return {operand for op, operand in self.steps if op == lib.SP_EXTENT_ARG}

    def value(self, args: Sequence[int]) -> int:
        """What it comes to for these arguments (those it names must be integers)."""
        stack: list[int] = []
        for op, operand in self.steps:
            if op == lib.SP_EXTENT_CONST:
                stack.append(operand)
            elif op == lib.SP_EXTENT_ARG:
                stack.append(int(args[operand]))
            elif op == lib.SP_EXTENT_SPAN:
                n1, s1, n2, s2 = stack[-4:]
                stack[-4:] = [(n1 - 1) * s1 + (n2 - 1) * s2 + 1 if n1 and n2 else 0]
            else:
                a, b = stack[-2:]
                stack[-2:] = [_OPERATIONS[op](a, b)]
        return stack[0]
