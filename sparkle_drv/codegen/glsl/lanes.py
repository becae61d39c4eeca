"""How a thread gets the operands of its tm rows, which all threads side by side share.

Plainly: it loads each. On a software device, where every load goes through the threads of a vector
one by one, it costs less when each thread of a vector of eight loads one row and all read it there
(ARB_shader_ballot): one load does for eight rows. Whether a vector is eight threads is known when
the driver compiles; the way that is not taken is thrown away then.

Called by gemm.py and conv2d.py for their algorithms without shared memory.
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
    """`tm` rows, loaded by every thread (`lanes` = 1) or shared out among `lanes` threads."""

    tm: int
    lanes: int

    @property
    def values(self) -> list[str]:
        """The names that `load` gives the operands of the rows."""
        return [f"v{r}" for r in range(self.tm)]

    @property
    def _loads(self) -> int:
        return -(-self.tm // self.lanes)

    def each(self, text: str) -> list[str]:
        """`text` for every load of this thread: {row} names it, {offset} is its row."""
        lane = " + gl_SubGroupInvocationARB" if self.lanes > 1 else ""
        return [
            text.format(row=f"h{at}", offset=f"{at * self.lanes}u{lane}")
            for at in range(self._loads)
        ]

    def load(self, kind: str, text: str) -> str:
        """The operands: `text` is the load at {row}, `kind` its type."""
        if self.lanes == 1:
            return "\n".join(f"{kind} v{r} = {text.format(row=f'h{r}')};" for r in range(self.tm))
        lines = [f"{kind} h{at} = {text.format(row=f'h{at}')};" for at in range(self._loads)]
        lines += [
            f"{kind} v{r} = readInvocationARB(h{r // self.lanes}, {r % self.lanes}u);"
            for r in range(self.tm)
        ]
        return "\n".join(lines)


def either(kit: Kit, tile: Tile, registers: Registers, text: Callable[[Rows], str]) -> str:
    """`text` for the way to load that the device takes."""
    plain = text(Rows(tile.tm, 1))
    # Every eight neighbours must be of one row of threads.
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
