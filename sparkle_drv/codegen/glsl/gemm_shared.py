"""The loop of a matrix product whose operands are staged in shared memory.

Each output is a sum of k terms, and an iteration stages the operands of bk of them. The staged
blocks consist of vectors, in the form in which a thread reads them. A vector has elements of
several rows of a, or of several columns of b, for the same term. gemm.py calls this for the
algorithm "shared".
"""

from __future__ import annotations

from .kit import Kit
from .registers import LANES, Registers, indented
from .tile import Tile


def loop(kit: Kit, tile: Tile, registers: Registers) -> str:
    """Adds the shared arrays to `kit`. Returns the loop's text, which leaves sums in registers."""
    width, vector = registers.width, registers.vector
    declare(kit, tile, registers)
    quads_m, quads_n = tile.bm // width, tile.bn // width
    a_values = ", ".join(
        f"a[min(i + {lane}u, m - 1u) * rsa + min(p, k - 1u) * csa]" for lane in range(width)
    )
    b_values = ", ".join(
        f"b[min(p, k - 1u) * rsb + min(j + {lane}u, n - 1u) * csb]" for lane in range(width)
    )
    # Terms beyond k are set to zero in both blocks. If only one block had zeros there, a zero times
    # an infinity that was left in the other block would be NaN. Neighbouring threads stage
    # neighbouring terms of a row of a, and neighbouring columns of b.
    stage_a = f"""\
uint p = first + at % {tile.bk}u;
uint i = group.y * {tile.bm}u + at / {tile.bk}u * {width}u;
stage_a[at % {tile.bk}u * {quads_m}u + at / {tile.bk}u] =
    p < k ? {vector}({a_values}) : {registers.zero};"""
    value = f"{vector}({b_values})"
    if width > 1:
        value = f"(wide ? b_v[(min(p, k - 1u) * rsb + min(j, n - {width}u)) / {width}u] : {value})"
    stage_b = f"""\
uint p = first + at / {quads_n}u;
uint j = group.x * {tile.bn}u + at % {quads_n}u * {width}u;
stage_b[at] = p < k ? {value} : {registers.zero};"""
    return f"""\
uint done = 0u;
for (uint first = 0u; first < k; first += {tile.bk}u) {{
{indented(strided(tile, quads_m * tile.bk, stage_a))}
{indented(strided(tile, quads_n * tile.bk, stage_b))}
    barrier();
{indented(products(tile, registers))}
    barrier();
}}
{registers.poison("done >= k")}"""


def declare(kit: Kit, tile: Tile, registers: Registers) -> None:
    width = registers.width
    kit.shared.append(f"{registers.vector} stage_a[{tile.bm // width * tile.bk}]")
    kit.shared.append(f"{registers.vector} stage_b[{tile.bn // width * tile.bk}]")


def strided(tile: Tile, count: int, body: str) -> str:
    """Returns a loop over `body` for `at` = 0 .. count - 1, divided among the group's threads."""
    threads = tile.columns * tile.rows
    return (
        f"for (uint at = gl_LocalInvocationIndex; at < {count}u; at += {threads}u) {{\n"
        f"{indented(body)}\n}}"
    )


def products(tile: Tile, registers: Registers) -> str:
    """Returns a loop that adds all terms of one staged block to the sums. The loop counts these
    terms in `done`.
    """
    width, vector = registers.width, registers.vector
    lines = [f"for (uint t = 0u; t < {tile.bk}u; t++) {{"]
    for r in range(tile.tm // width):
        at = f"t * {tile.bm // width}u + gl_LocalInvocationID.y * {tile.tm // width}u + {r}u"
        lines.append(f"    {vector} v{r} = stage_a[{at}];")
    for j in range(registers.vectors):
        at = f"t * {tile.bn // width}u + gl_LocalInvocationID.x + {j * tile.columns}u"
        lines.append(f"    {vector} b{j} = stage_b[{at}];")
    scalars = [
        f"v{r // width}" + (f".{LANES[r % width]}" if width > 1 else "") for r in range(tile.tm)
    ]
    step = registers.step(scalars, [f"b{j}" for j in range(registers.vectors)])
    return "\n".join([*lines, indented(step), "    done++;", "}"])
