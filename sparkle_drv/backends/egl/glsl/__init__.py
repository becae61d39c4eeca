"""GLSL compute shaders of the manifest's kernels, written for one tile plan and one device.

    shader = glsl.generate("gemm_f32", plan, info)   # -> Shader(source, groups, group_size)

What a host must do to run one (the egl backend does):
* the k-th pointer argument is bound to storage block k, the j-th scalar set at uniform location j;
* an optional pointer that is null gets any small buffer, and `has_mask` at HAS_MASK_LOCATION (uint)
  has bit k set for each pointer k that is not null. Shaders without optional pointers ignore it;
* `group_offset` at GROUP_OFFSET_LOCATION (uvec3) is added to gl_WorkGroupID: a grid of more than
  65535 groups an axis is cut into several dispatches. Zero for a dispatch that was not cut;
* both uniforms are declared in every shader, so that setting them is never an error;
* vector loads want each buffer to start at a multiple of 16 bytes.

DeviceInfo tells what to write: kind and software choose defaults, max_group_size and
max_shared_nbytes are limits, "es31" among the features means OpenGL ES 3.1: no doubles, and no
second view of a block because there may be as few as four. GLSL only, no GL: nothing here calls a
driver. ValueError names the field of a plan that the device cannot do; KeyError: no such kernel.
"""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from . import conv2d, elementwise, gemm, layout, map, misc, reduce
from .kit import GROUP_OFFSET_LOCATION, HAS_MASK_LOCATION, Shader, is_es

__all__ = ["GROUP_OFFSET_LOCATION", "HAS_MASK_LOCATION", "NAMES", "Shader", "generate", "provides"]

_GENERATORS = {
    name: module.generate
    for module in (misc, elementwise, map, gemm, conv2d, reduce, layout)
    for name in module.NAMES
}
NAMES = frozenset(_GENERATORS)  #: the kernels there are shaders for
_ANY = TilePlan()


def provides(name: str, info: DeviceInfo) -> bool:
    """Can this device have this kernel? OpenGL ES has no doubles; copies of them need none."""
    return name in NAMES and not (
        is_es(info) and name.endswith("_f64") and not name.startswith("copy_")
    )


def generate(name: str, plan: TilePlan | None, info: DeviceInfo) -> Shader:
    """The shader of manifest kernel `name` for `plan` (None: defaults for this device)."""
    return _GENERATORS[name](name, plan or _ANY, info)
