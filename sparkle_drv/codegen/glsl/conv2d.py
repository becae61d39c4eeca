"""conv2d_f32: y = act(x * w + bias), NCHW or NHWC, any stride, padding, dilation and groups.

    naive   one output per thread, plain loops: the oracle's shader
    direct  tm output channels x tn pixels per thread, weights and pixels straight from memory
    im2col  the product of a matrix of weights and a matrix of pixels, which is never stored: blocks
            of both are staged in shared memory (conv2d_shared.py)

Each algorithm numbers the n * oh * ow pixels of the batch in one sequence. The terms of an output
are numbered in the order of w: channels of the convolution's group, kh, kw. With plan.levels[0] =
(bm, bn, bk) a group of threads computes bm output channels x bn pixels. levels[1] = (tm, tn, 1) is
a thread's part. With plan.vector = 4 a load takes four weights, if the number of weights of an
output channel is a multiple of four.
"""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from . import conv2d_shared, defaults, lanes
from .conv2d_text import FRAME, FRAME_FUNCTIONS, channel_origin, pixel_origin, store
from .kit import Kit, Shader, is_es
from .registers import LANES, Registers, activation, indented
from .tile import Tile, checked

NAMES = ("conv2d_f32",)
ALGOS = ("naive", "direct", "im2col")


def generate(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    tile = checked(defaults.conv2d(plan, info), info, ALGOS, 4)
    width = 1 if tile.vector == 1 or is_es(info) else 4
    kit = Kit(name, info, tile.group_size)
    groups = (f"n*oh*ow/{tile.bn}", f"groups*((oc/groups)/{tile.bm})")
    uses, act = activation("f32")
    kit.uses += uses
    functions = FRAME_FUNCTIONS + act
    if tile.algo == "naive":
        body = FRAME + channel_origin(tile) + _NAIVE
    elif tile.algo == "im2col":
        if tile.tm % width or tile.tn % width:
            width = 1
        registers = Registers("float", width, tile.tm, tile.tn)
        body = FRAME + channel_origin(tile) + registers.zeros() + "\n"
        body += conv2d_shared.loop(kit, tile, registers) + store(tile, registers)
        functions += conv2d_shared.FUNCTIONS
    else:
        registers = Registers("float", 1, tile.tm, tile.tn)
        if width > 1:
            kit.views.append(("w", "vec4"))
        body = FRAME + channel_origin(tile) + pixel_origin(tile) + registers.zeros() + "\n"
        body += lanes.either(kit, tile, registers, lambda way: _direct(tile, registers, width, way))
        body += store(tile, registers)
    return kit.finish(body, groups, functions)


_NAIVE = """\
uint pixel = group.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
if (channel < channels_out && pixel < pixels) {
    uvec3 at = sp_pixel(pixel);
    uint weights = (part * channels_out + channel) * terms;
    float sum = 0.0;
    uint done = 0u;
    for (uint ch = 0u; ch < channels_in; ch++) {
        for (uint i = 0u; i < kh; i++) {
            uint row = at.y * sh + i * dh - ph; /* above the image: wraps around, beyond h */
            for (uint j = 0u; j < kw; j++) {
                uint column = at.x * sw + j * dw - pw;
                done++;
                if (row < h && column < w_in) {
                    uint from = at.z * x_image + (part * channels_in + ch) * x_channel
                        + row * x_row + column * x_column;
                    sum += w[weights + (ch * kh + i) * kw + j] * x[from];
                }
            }
        }
    }
    if (done != terms) /* a driver that leaves long loops: see registers.py */
        sum = uintBitsToFloat(0x7fc00000u);
    uint out_channel = part * channels_out + channel;
    if ((sp_null & 8u) == 0u)
        sum += bias[out_channel];
    y[sp_out(pixel, out_channel)] = sp_act(sum, act);
}
"""


def _direct(tile: Tile, registers: Registers, width: int, way: lanes.Rows) -> str:
    """Returns the text of the loops over the terms of the sums.

    The first loop takes four terms at a time, with their weights in one vector. The second loop
    takes one term at a time. Both advance the filter position without divisions.
    """
    last = "min(channel + {offset}, channels_out - 1u)"
    lines = way.each(f"uint {{row}}_at = (part * channels_out + {last}) * terms;")
    lines.append("uint term = 0u, ch = 0u, i = 0u, j = 0u;")
    if width > 1:
        lines += [
            "if ((terms & 3u) == 0u) {",
            "    for (; term < terms; term += 4u) {",
            indented(way.load("vec4", "w_v[({row}_at + term) / 4u]"), 8),
            *[indented(_pixels(tile, f"_{at}"), 8) for at in range(4)],
            indented(registers.steps([_four(tile, way, at) for at in range(4)]), 8),
            "    }",
            "}",
        ]
    step = registers.step(way.values, [f"b{t}_0" for t in range(tile.tn)])
    lines += [
        "for (; term < terms; term++) {",
        indented(way.load("float", "w[{row}_at + term]")),
        indented(_pixels(tile, "_0")),
        indented(step),
        "}",
        registers.poison("term == terms"),
    ]
    return "\n".join(lines)


def _four(tile: Tile, way: lanes.Rows, at: int) -> tuple[list[str], list[str]]:
    """Returns GLSL expressions of the weights and of the pixels for one of four terms.

    A term is a product that is added to a sum; an iteration of the shader's loop adds four. `at`
    is the number of the term, 0 to 3.
    """
    return [f"{v}.{LANES[at]}" for v in way.values], [f"b{t}_{at}" for t in range(tile.tn)]


def _pixels(tile: Tile, end: str) -> str:
    """Returns text that loads the pixels of term (ch, i, j) and advances to the next term.

    `end` is the suffix of the variables that hold the pixels.
    """
    lines = [f"float {', '.join(f'b{t}{end}' for t in range(tile.tn))};", "{"]
    lines.append("    uint down = i * dh, right = j * dw;")
    lines.append("    uint step = ch * x_channel + down * x_row + right * x_column;")
    for t in range(tile.tn):
        lines.append(f"    bool in{t} = row{t} + down < h && column{t} + right < w_in;")
        lines.append(f"    b{t}{end} = x[in{t} ? from{t} + step : 0u];")
        lines.append(f"    b{t}{end} = in{t} ? b{t}{end} : 0.0;")
    lines.append("    j++;")
    lines.append("    if (j == kw) { j = 0u; i++; }")
    lines.append("    if (i == kh) { i = 0u; ch++; }")
    return "\n".join([*lines, "}"])
