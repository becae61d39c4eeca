"""Writes shader text that loads the operands of a thread's tm rows.

Neighbouring threads have the same rows, so they need the same operands.

In the plain form each thread loads every operand. A software device does a load for the threads of
a vector one after another. There, eight threads can share the work: each thread loads one row, and
the other threads read the row from that thread (ARB_shader_ballot). A shader may contain both
forms. The driver knows at compile time whether a vector has eight threads, and removes the form
that is not used.

gemm.py and conv2d.py call this for their algorithms without shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .kit import Kit
from .registers import Registers, indented
from .tile import Tile

_LANES = 8
_EXTENSION = "GL_ARB_shader_ballot"


@dataclass(frozen=True)
class Rows:
    """The loads of `tm` rows of an operand.

    Each thread loads all rows (`lanes` = 1), or `lanes` threads share the loads.
    """

    tm: int
    lanes: int

    @property
    def values(self) -> list[str]:
        """The names of the variables that hold the operands after `load`."""
        return [f"v{r}" for r in range(self.tm)]

    @property
    def _loads(self) -> int:
        return -(-self.tm // self.lanes)

    def each(self, text: str) -> list[str]:
        """Returns a copy of the GLSL text `text` for each row that this thread loads.

        {row} in `text` becomes the name of the variable that is loaded. {offset} becomes an
        expression for the number of the row, counted from the thread's first row.
        """
        lane = " + gl_SubGroupInvocationARB" if self.lanes > 1 else ""
        return [
            text.format(row=f"h{at}", offset=f"{at * self.lanes}u{lane}")
            for at in range(self._loads)
        ]

    def load(self, kind: str, text: str) -> str:
        """Returns text that loads one operand for each of the thread's `tm` rows.

        `text` is the GLSL expression for the operand of a row; {row} in it becomes the name of
        the variable that is loaded. `kind` is the operand's type.
        """
        if self.lanes == 1:
            return "\n".join(f"{kind} v{r} = {text.format(row=f'h{r}')};" for r in range(self.tm))
        lines = [f"{kind} h{at} = {text.format(row=f'h{at}')};" for at in range(self._loads)]
        lines += [
            f"{kind} v{r} = readInvocationARB(h{r // self.lanes}, {r % self.lanes}u);"
            for r in range(self.tm)
        ]
        return "\n".join(lines)


def either(kit: Kit, tile: Tile, registers: Registers, text: Callable[[Rows], str]) -> str:
    """Returns the loop that `text` writes, in which each thread loads every operand.

    If threads can share loads, the result also has a second loop, in which the threads share
    loads. The driver chooses one of the two loops when it compiles the shader.
    """
    plain = text(Rows(tile.tm, 1))
    # llvmpipe runs eight threads as one vector. They can share loads only if all eight lie in one
    # row of the group's threads.
    if not kit.info.software or tile.columns % _LANES or registers.number != "float":
        return plain
    kit.extensions.append(_EXTENSION)
    shared = text(Rows(tile.tm, _LANES))
    return f"""\
#ifdef {_EXTENSION}
if (gl_SubGroupSizeARB == {_LANES}u) {{
{indented(shared.rstrip())}
}} else
#endif
{{
{indented(plain.rstrip())}
}}
"""
