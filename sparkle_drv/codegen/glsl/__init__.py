"""GLSL compute shaders of the manifest's kernels, written for one tile plan and one device.

    shader = glsl.generate("gemm_f32", plan, info)   # -> Shader(source, groups, group_size)

A host, such as the egl backend, must do the following to run a shader:
* It binds the k-th pointer argument to storage block k and sets the j-th scalar at uniform location
  j.
* If the optional pointer k is null, it binds any small buffer to block k. It also sets bit k of
  `sp_null` (uint, at NULL_LOCATION).
* It cuts a grid of more than 65535 groups along an axis into several dispatches. The shader adds
  `sp_group_offset` (uvec3, at GROUP_OFFSET_LOCATION) to gl_WorkGroupID; it is zero without a cut.
* Every shader declares both uniforms. If a shader does not use one, setting it has no effect.
* Each buffer starts at a multiple of 16 bytes, which vector loads need.

A shader's text depends on these fields of DeviceInfo. kind and software choose defaults.
max_group_size and max_shared_nbytes are limits. "f64" among the features means that doubles exist.
isa "essl 310" is OpenGL ES 3.1, which may have only four storage blocks. So shaders for OpenGL ES
never bind a block a second time as an array of vec4. This folder writes GLSL and never calls a
driver. codegen/kernels.py calls `provides` and `generate`.

    kit.py                                      a shader's frame: bindings, uniforms, arguments
    gemm.py, gemm_shared.py                     products: naive and blocked; in shared memory
    conv2d.py, conv2d_shared.py, conv2d_text.py convolutions: direct; im2col; their common text
    map.py, elementwise.py, reduce.py           expressions; fixed elementwise kernels; reductions
    layout.py, misc.py                          layouts and strided copies; noop, busy, peak
    defaults.py                                 algorithm and tiles if a plan has none
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
NAMES = frozenset(_GENERATORS)  #: the kernels that have shaders
_ANY = TilePlan()


def provides(name: str, info: DeviceInfo) -> bool:
    """Returns whether the device can run kernel `name`.

    A device without doubles runs no f64 kernel except copies, which move doubles as words.
    """
    doubles = name.endswith("_f64") and not name.startswith("copy_")
    return name in NAMES and not (doubles and "f64" not in info.features)


def generate(name: str, plan: TilePlan | None, info: DeviceInfo) -> Shader:
    """Returns the shader of manifest kernel `name` for `plan`.

    If `plan` is None, the defaults for this device apply.

    Raises KeyError for a kernel without a shader, ImageError (a ValueError) if the device has no
    doubles, ValueError if the device cannot run the plan.
    """
    write = _GENERATORS[name]
    if not provides(name, info):
        raise ImageError(f"{name}: {info.uri} ({info.name}) has no doubles")
    return write(name, plan or _ANY, info)
