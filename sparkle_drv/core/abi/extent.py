"""Sizes in terms of a kernel's integer arguments: "m*k", "n/256", "span(m, rsa, k, csa)".

An extent is a Python expression over arguments and numbers with + - * /, parentheses and span. The
division rounds up. span(n1, s1, n2, s2) counts the elements from the first to the last of a strided
matrix. Extents are compiled to the steps of sp_cmd.h, which C computes (native/core/extents.h).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from sparkle_drv._native import lib
from sparkle_drv.fork_lock import fork_lock

_BINARY = {
    ast.Add: lib.SP_EXTENT_ADD,
    ast.Sub: lib.SP_EXTENT_SUB,
    ast.Mult: lib.SP_EXTENT_MUL,
    ast.Div: lib.SP_EXTENT_DIV,
}
# CPython 3.11 counts the depth of trees that it makes per process: when two threads parse at once,
# `ast.parse` may raise SystemError, "AST constructor recursion depth mismatch".
_parsing = fork_lock()


def steps_of(text: str, names: Mapping[str, tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Returns the extent `text` as steps, each with the fields of a struct sp_extent_step.

    `names` has (offset in the packed arguments, bytes) of each integer argument. Raises ValueError
    if `text` is not an extent, or uses a name that is not in `names`.
    """
    steps: list[tuple[int, int, int, int]] = []

    def operand(node: ast.expr) -> tuple[int, int, int]:
        """Returns the operand `node` as (offset, mask, constant) of a struct sp_extent_step."""
        match node:
            case ast.Constant(int(number)):
                return 0, 0, number
            case ast.Name(name) if name in names:
                offset, nbytes = names[name]
                return offset, 2 ** (8 * nbytes) - 1, 0
        known = ", ".join(names) or "none"
        given = ast.unparse(node)
        raise ValueError(f"extent {text!r}: {given!r} is not an integer argument; known: {known}")

    def add(op: int, node: ast.expr) -> None:
        """Appends the steps of `node`; the last step applies `op` to the value of `node`."""
        match node:
            case ast.BinOp(left, sign, right) if type(sign) in _BINARY:
                add(lib.SP_EXTENT_PUSH, left)
                add(_BINARY[type(sign)], right)
            case ast.Call(ast.Name("span"), [_, _, _, _] as given, []):
                steps.extend((lib.SP_EXTENT_SPAN, *operand(one)) for one in given)
            case _:
                steps.append((op, *operand(node)))
                return
        if op != lib.SP_EXTENT_PUSH:
            steps.append((op | lib.SP_EXTENT_POPPED, 0, 0, 0))

    try:
        with _parsing:
            tree = ast.parse(text.strip(), "extent", "eval")
        add(lib.SP_EXTENT_PUSH, tree.body)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"extent {text!r}: {error}") from None
    return steps
