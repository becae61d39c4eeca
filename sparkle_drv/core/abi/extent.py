"""Sizes in terms of a kernel's integer arguments: "m*k", "n/256", "span(m, rsa, k, csa)".

A grammar of + - * / (rounding up), parentheses and span(n1, s1, n2, s2), the elements from the
first to the last of a strided matrix, of arguments and numbers. Compiled to the steps of sp_cmd.h,
which C computes (native/core/extents.h).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkle_drv._native import lib

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|([-+*/(),]))")
_BINARY = {
    "+": (1, lib.SP_EXTENT_ADD),
    "-": (1, lib.SP_EXTENT_SUB),
    "*": (2, lib.SP_EXTENT_MUL),
    "/": (2, lib.SP_EXTENT_DIV),
}
Operand = tuple[int, int, int]
"""offset, mask and constant of a struct sp_extent_step."""
_POPPED: Operand = (0, 0, 0)


class Extent:
    """`steps` is what C computes of `text`, each as a struct sp_extent_step.

    `names` has (offset among the packed arguments, bytes) of each integer argument. Raises
    ValueError for what cannot be read and for other names.
    """

    def __init__(self, text: str, names: Mapping[str, tuple[int, int]]) -> None:
        self.text, self.names = text, names
        self.steps: list[tuple[int, int, int, int]] = []
        self.tokens = self._tokens()
        self._push(self._expression(0))
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

    def _push(self, operand: Operand | None) -> None:
        if operand is not None:
            self.steps.append((lib.SP_EXTENT_PUSH, *operand))

    def _expression(self, floor: int) -> Operand | None:
        """An operand, or None: its steps are there."""
        value = self._value()
        while self.tokens and self.tokens[0] in _BINARY and _BINARY[self.tokens[0]][0] > floor:
            self._push(value)
            value = None
            rank, op = _BINARY[self._take()]
            by = self._expression(rank)
            self.steps.append((op, *by) if by else (op | lib.SP_EXTENT_POPPED, *_POPPED))
        return value

    def _value(self) -> Operand | None:
        token = self._take()
        if token == "(":
            value = self._expression(0)
            self._take(")")
            return value
        if token == "span":
            for before in "(,,,":
                self._take(before)
                self.steps.append((lib.SP_EXTENT_SPAN, *self._operand(self._take())))
            self._take(")")
            return None
        return self._operand(token)

    def _operand(self, token: str) -> Operand:
        if token.isdigit():
            return 0, 0, int(token)
        if token not in self.names:
            known = ", ".join(self.names) or "none"
            raise ValueError(
                f"extent {self.text!r}: {token!r} is no integer argument; known: {known}"
            )
        offset, nbytes = self.names[token]
        return offset, 2 ** (8 * nbytes) - 1, 0
