"""The common text of the conv2d shaders: sizes and strides of both layouts, positions of a thread's
outputs, and their stores.

Positions are unsigned. Those left of or above the image wrap around to large numbers. So one
comparison finds all positions outside the image. conv2d.py and conv2d_shared.py call this.
"""

from __future__ import annotations

from .registers import Registers
from .tile import Tile

FRAME_FUNCTIONS = """\
/* (column, row, image) of an output pixel. */
uvec3 sp_pixel(uint pixel)
{
    uint area = oh * ow;
    uint inside = pixel % area;
    return uvec3(inside % ow, inside / ow, pixel / area);
}

uint sp_out(uint pixel, uint channel)
{
    uint area = oh * ow;
    if (nhwc != 0u)
        return pixel * oc + channel;
    return (pixel / area * oc + channel) * area + pixel % area;
}
"""

FRAME = """\
uvec3 group = gl_WorkGroupID + sp_group_offset;
uint pixels = n * oh * ow;
uint channels_in = c / groups, channels_out = oc / groups; /* of one part of the channels */
uint terms = channels_in * kh * kw;
uint x_image = c * h * w_in;
uint x_channel = nhwc != 0u ? 1u : h * w_in;
uint x_row = nhwc != 0u ? w_in * c : w_in;
uint x_column = nhwc != 0u ? c : 1u;
"""


def channel_origin(tile: Tile) -> str:
    """Returns text that sets `part` and `channel`.

    `part` is the convolution's group. `channel` is the thread's first output channel in that group.
    """
    local = f" + gl_LocalInvocationID.y * {tile.tm}u" if tile.rows > 1 else ""
    return f"""\
uint tiles = (channels_out + {tile.bm - 1}u) / {tile.bm}u;
uint part = group.y / tiles;
uint channel = group.y % tiles * {tile.bm}u{local};
"""


def pixel_origin(tile: Tile) -> str:
    """Returns text that sets rowT, columnT and fromT for each pixel T of the thread.

    rowT and columnT are the position in the image where the filter of pixel T starts. fromT is the
    index of this position in x.
    """
    lines = [f"uint pixel = group.x * {tile.bn}u + gl_LocalInvocationID.x;"]
    for t in range(tile.tn):
        lines.append(f"uvec3 at{t} = sp_pixel(min(pixel + {t * tile.columns}u, pixels - 1u));")
        lines.append(f"uint row{t} = at{t}.y * sh - ph, column{t} = at{t}.x * sw - pw;")
        lines.append(
            f"uint from{t} = at{t}.z * x_image + part * channels_in * x_channel"
            f" + row{t} * x_row + column{t} * x_column;"
        )
    return "\n".join([*lines, ""])


def store(tile: Tile, registers: Registers) -> str:
    """Returns text that adds the bias, stores the sums, then applies the activation to them.

    The activation is a loop over the results that this thread has stored. Code that applies it to
    each sum before the store would be unrolled, and would be most of the shader.
    """
    width, apart = registers.width, tile.columns * registers.width
    lines = [f"uint first = group.x * {tile.bn}u + gl_LocalInvocationID.x * {width}u;"]
    lines.append("uint out_channel = part * channels_out + channel;")
    columns = [
        (j * width + lane, f"first + {j * apart + lane}u")
        for j in range(registers.vectors)
        for lane in range(width)
    ]
    lines.append("if ((sp_null & 8u) == 0u) {")
    for r in range(tile.tm):
        lines.append(f"    float bias{r} = bias[min(out_channel + {r}u, oc - 1u)];")
        lines += [f"    {registers.lane(r, at)} += bias{r};" for at, _ in columns]
    lines.append("}")
    lines.append("uint out_step = nhwc != 0u ? 1u : oh * ow;")
    for at, pixel in columns:
        lines.append(f"if ({pixel} < pixels) {{")
        lines.append(f"    uint to = sp_out({pixel}, out_channel);")
        for r in range(tile.tm):
            lines.append(
                f"    if (channel + {r}u < channels_out) y[to + {r}u * out_step] = "
                f"{registers.lane(r, at)};"
            )
        lines.append("}")
    lines.append(f"""\
if (act != 0u) {{
    uint acted = 0u, last = min(channel + {tile.tm}u, channels_out);
    for (uint v = 0u; v < {registers.vectors}u; v++) {{
        uint p = first + v * {apart}u;
        for (uint end = min(p + {width}u, pixels); p < end; p++) {{
            uint to = sp_out(p, out_channel);
            for (uint q = channel; q < last; q++) {{
                y[to] = sp_act(y[to], act);
                to += out_step;
                acted++;
            }}
        }}
    }}
    uint wanted = (last - channel) * ({registers.clipped("first", "pixels", apart)});
    if (channel < channels_out && first < pixels && acted != wanted) /* see registers.py */
        y[sp_out(first, out_channel)] = uintBitsToFloat(0x7fc00000u);
}}
""")
    return "\n".join(lines)
