"""Layout transforms of 4-D f32 arrays, and strided copies: one thread per element of the output.

Elements move as uint or uvec2, so that NaN payloads and denormals keep their bits. A store in GLSL
has four bytes at least, so there are no strided copies of smaller elements.
"""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from .kit import Kit, Shader, linear
from .tile import group_threads

# Positions may wrap around at 2**32. The tests against dst_n and src_n keep accesses in the arrays.
_STRIDED = (
    "n0*n1*n2*n3",
    """\
uint i3 = i % n3, row = i / n3, i2 = row % n2, plane = row / n2;
uint i1 = plane % n1, i0 = plane / n1;
uint to = dst_offset + i0 * uint(dst_stride0) + i1 * uint(dst_stride1)
    + i2 * uint(dst_stride2) + i3 * uint(dst_stride3);
uint from = src_offset + i0 * uint(src_stride0) + i1 * uint(src_stride1)
    + i2 * uint(src_stride2) + i3 * uint(src_stride3);
if (to < dst_n && from < src_n)
    dst[to] = src[from];""",
)
# name -> (number of output elements, text that computes element i).
_KERNELS = {
    "nchw_to_nhwc_f32": (
        "n*c*h*w",
        """\
uint area = h * w;
uint ch = i % c, pixel = i / c % area, image = i / c / area;
y[i] = x[(image * c + ch) * area + pixel];""",
    ),
    "nhwc_to_nchw_f32": (
        "n*c*h*w",
        """\
uint area = h * w;
uint pixel = i % area, ch = i / area % c, image = i / area / c;
y[i] = x[(image * area + pixel) * c + ch];""",
    ),
    "nchw_to_blocked_f32": (
        "n*(c/block)*block*h*w",
        """\
uint area = h * w, blocks = (c + block - 1u) / block;
uint lane = i % block, pixel = i / block % area, plane = i / block / area;
uint ch = plane % blocks * block + lane, image = plane / blocks;
y[i] = ch < c ? x[(image * c + min(ch, c - 1u)) * area + pixel] : 0u;""",
    ),
    "blocked_to_nchw_f32": (
        "n*c*h*w",
        """\
uint area = h * w, blocks = (c + block - 1u) / block;
uint pixel = i % area, ch = i / area % c, image = i / area / c;
y[i] = x[((image * blocks + ch / block) * area + pixel) * block + ch % block];""",
    ),
    "strided_u32": _STRIDED,
    "strided_u64": _STRIDED,
}
NAMES = tuple(_KERNELS)


def generate(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    count, move = _KERNELS[name]
    size = group_threads(plan, info, default=256)
    kit = Kit(name, info, (size, 1, 1), types={"x": "uint", "y": "uint"})
    limit = count.replace("c/block", "(c + block - 1u) / block").replace("*", " * ")
    body = f"{linear(size)}\nif (i >= {limit})\n    return;\n{move}"
    return kit.finish(body, (f"({count})/{size}",))
