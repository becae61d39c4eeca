"""GLSL compute shaders of the manifest's kernels, written for one tile plan and one device.

    shader = glsl.generate("gemm_f32", plan, info)   # -> Shader(source, groups, group_size)

What a host must do to run one (the egl backend does):
* the k-th pointer argument is bound to storage block k, the j-th scalar set at uniform location j;
* an optional pointer that is null gets any small buffer, and `sp_null` (uint, at NULL_LOCATION) has
  bit k set for each pointer k that is null;
* `sp_group_offset` (uvec3, at GROUP_OFFSET_LOCATION) is added to gl_WorkGroupID: a grid of more
  than 65535 groups an axis is cut into several dispatches. Zero for a dispatch that was not cut;
* both uniforms are declared in every shader; where one is not used, setting it does nothing;
* vector loads want each buffer to start at a multiple of 16 bytes.

DeviceInfo tells what to write: kind and software choose defaults, max_group_size and
max_shared_nbytes are limits, "f64" among the features means doubles, isa "essl 310" OpenGL ES 3.1
(no second view of a block then, because there may be as few as four). GLSL only, no GL: nothing
here calls a driver. codegen/kernels.py calls `provides` and `generate`.

    kit.py                                      a shader's frame: bindings, uniforms, arguments
    gemm.py, gemm_shared.py                     products: naive and blocked; in shared memory
    conv2d.py, conv2d_shared.py, conv2d_text.py convolutions: direct; im2col; what they share
    map.py, elementwise.py, reduce.py           expressions; fixed elementwise kernels; reductions
    layout.py, misc.py                          layouts and strided copies; noop, busy, peak
    defaults.py                                 algorithm and tiles where a plan says none
    tile.py                                     checks a TilePlan against the device's limits
    registers.py                                the tile of sums in a thread's registers
    lanes.py                                    operands shared by eight lanes (shader_ballot)
    vmath.py                                    accurate exp, tanh, log, sin, pow for f32 and f64
"""

from __future__ import annotations

from collections.abc import Callable

from sparkle_drv.errors import ImageError
from sparkle_drv.types import DeviceInfo, TilePlan

from . import conv2d, elementwise, gemm, layout, map, misc, reduce
from .kit import GROUP_OFFSET_LOCATION, NULL_LOCATION, Shader

__all__ = ["GROUP_OFFSET_LOCATION", "NAMES", "NULL_LOCATION", "Shader", "generate", "provides"]

_GENERATORS: dict[str, Callable[[str, TilePlan, DeviceInfo], Shader]] = {
    name: module.generate
    for module in (misc, elementwise, map, gemm, conv2d, reduce, layout)
    for name in module.NAMES
}
NAMES = frozenset(_GENERATORS)  #: the kernels there are shaders for
_ANY = TilePlan()


def provides(name: str, info: DeviceInfo) -> bool:
    """Can this device have this kernel? Some have no doubles; copies of them need none."""
    doubles = name.endswith("_f64") and not name.startswith("copy_")
    return name in NAMES and not (doubles and "f64" not in info.features)


def generate(name: str, plan: TilePlan | None, info: DeviceInfo) -> Shader:
    """The shader of manifest kernel `name` for `plan` (None: defaults for this device).

    KeyError: there is none of that name. ImageError (a ValueError): the device has no doubles.
    ValueError: the plan asks for what the device has not.
    """
    write = _GENERATORS[name]
    if not provides(name, info):
        raise ImageError(f"{name}: {info.uri} ({info.name}) has no doubles")
    return write(name, plan or _ANY, info)
