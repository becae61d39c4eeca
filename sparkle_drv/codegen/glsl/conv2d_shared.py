"""The loop of conv2d as a matrix product whose operands are staged in shared memory.

The product is weights [channels, terms] times pixels [terms, pixels]. The matrix of pixels does not
exist in memory: its elements are read from the image by computed indices.

conv2d.py calls this for the algorithm "im2col".
"""

from __future__ import annotations

from . import gemm_shared
from .kit import Kit
from .registers import Registers, indented
from .tile import Tile

FUNCTIONS = """\
/* The element of the image under term `term` of the filter for output pixel `pixel`. */
float sp_x(uint term, uint pixel, uint part, uint channels_in, uvec3 steps)
{
    uint ch = term / (kh * kw), i = term / kw % kh, j = term % kw;
    uvec3 at = sp_pixel(pixel);
    uint row = at.y * sh + i * dh - ph, column = at.x * sw + j * dw - pw;
    if (row >= h || column >= w_in)
        return 0.0;
    return x[at.z * c * h * w_in + (part * channels_in + ch) * steps.x + row * steps.y
             + column * steps.z];
}
"""


def loop(kit: Kit, tile: Tile, registers: Registers) -> str:
    """Adds the shared arrays to `kit`. Returns the loop's text, which leaves sums in registers."""
    width, vector = registers.width, registers.vector
    gemm_shared.declare(kit, tile, registers)
    quads_m, quads_n = tile.bm // width, tile.bn // width
    weights = ", ".join(
        f"w[(part * channels_out + min(i + {lane}u, channels_out - 1u)) * terms"
        " + min(term, terms - 1u)]"
        for lane in range(width)
    )
    elements = ", ".join(
        f"sp_x(term, min(pixel + {lane}u, pixels - 1u), part, channels_in, steps)"
        for lane in range(width)
    )
    stage_a = f"""\
uint term = begin + at % {tile.bk}u;
uint i = group.y % tiles * {tile.bm}u + at / {tile.bk}u * {width}u;
stage_a[at % {tile.bk}u * {quads_m}u + at / {tile.bk}u] =
    term < terms ? {vector}({weights}) : {registers.zero};"""
    stage_b = f"""\
uint term = begin + at / {quads_n}u;
uint pixel = group.x * {tile.bn}u + at % {quads_n}u * {width}u;
stage_b[at] = term < terms ? {vector}({elements}) : {registers.zero};"""
    return f"""\
uint done = 0u;
uvec3 steps = uvec3(x_channel, x_row, x_column);
for (uint begin = 0u; begin < terms; begin += {tile.bk}u) {{
{indented(gemm_shared.strided(tile, quads_m * tile.bk, stage_a))}
{indented(gemm_shared.strided(tile, quads_n * tile.bk, stage_b))}
    barrier();
{indented(gemm_shared.products(tile, registers))}
    barrier();
}}
{registers.poison("done >= terms")}"""
