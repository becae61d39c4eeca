"""Layout transforms of 4-D f32 arrays: a thread an element of the output, in its order.

Bits are moved as they are (uint), so that NaN payloads and denormals survive.
"""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from .kit import Kit, Shader, linear
from .tile import group_threads

# name -> (elements of the output, how element i of it is found).
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
}
NAMES = tuple(_KERNELS)


def generate(name: str, plan: TilePlan, info: DeviceInfo) -> Shader:
    count, move = _KERNELS[name]
    size = group_threads(plan, info, default=256)
    kit = Kit(name, info, (size, 1, 1), types={"x": "uint", "y": "uint"})
    limit = count.replace("c/block", "(c + block - 1u) / block").replace("*", " * ")
    body = f"{linear(size)}\nif (i >= {limit})\n    return;\n{move}"
    return kit.finish(body, (f"({count})/{size}",))
