"""How a thread gets the operands of its tm rows, which all neighbouring threads share.

In the plain form a thread loads each operand. On a software device every load visits the threads of
a vector one by one. There one load can serve eight rows: each of eight threads loads one row, and
all read it from that thread (ARB_shader_ballot). The driver knows at compile time whether a vector
has eight threads, and removes the other form.

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
    """`tm` rows, loaded by every thread (`lanes` = 1) or divided among `lanes` threads."""

    tm: int
    lanes: int

    @property
    def values(self) -> list[str]:
        """The names of the operands after `load`."""
        return [f"v{r}" for r in range(self.tm)]

    @property
    def _loads(self) -> int:
        return -(-self.tm // self.lanes)

    def each(self, text: str) -> list[str]:
        """`text` for every load of this thread, with {row} as its name and {offset} as its row."""
        lane = " + gl_SubGroupInvocationARB" if self.lanes > 1 else ""
        return [
            text.format(row=f"h{at}", offset=f"{at * self.lanes}u{lane}")
            for at in range(self._loads)
        ]

    def load(self, kind: str, text: str) -> str:
        """The text that loads the operands: `text` is the load at {row}, `kind` its type."""
        if self.lanes == 1:
            return "\n".join(f"{kind} v{r} = {text.format(row=f'h{r}')};" for r in range(self.tm))
        lines = [f"{kind} h{at} = {text.format(row=f'h{at}')};" for at in range(self._loads)]
        lines += [
            f"{kind} v{r} = readInvocationARB(h{r // self.lanes}, {r % self.lanes}u);"
            for r in range(self.tm)
        ]
        return "\n".join(lines)


def either(kit: Kit, tile: Tile, registers: Registers, text: Callable[[Rows], str]) -> str:
    """`text` in the plain form, or in both forms with a choice at compile time."""
    plain = text(Rows(tile.tm, 1))
    # Each eight neighbours must be in one row of threads.
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
