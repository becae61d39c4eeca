"""Makes kernels of the manifest in the language of a device, DeviceInfo.language.

For "glsl", every kernel is generated as text. For "rdna", a map kernel whose plan has a program is
generated as machine code; all other kernels are the images that the manifest names. There are no
other languages. core/device.py calls this.
"""

from __future__ import annotations

import reprlib
from typing import Any

from sparkle_drv import assets
from sparkle_drv.backends.base import Generated
from sparkle_drv.types import DeviceInfo, TilePlan

_FIRST = {"glsl": "egl", "rdna": "amdgpu"}
"""language -> the backend under whose name the manifest lists the kernels of that language"""


def variant(name: str, info: DeviceInfo) -> Any:
    """Returns the manifest's entry of a kernel for this device; None if the device cannot run it.

    A backend that the manifest does not name gets the kernels of its language.
    """
    entry = assets.entry(name)
    if entry is None:
        return None
    if info.language == "glsl":
        from . import glsl

        if not glsl.provides(name, info):
            return None
    backends = entry["backends"]
    return backends.get(info.backend) or backends.get(_FIRST.get(info.language))


def make(name: str, plan: TilePlan | None, info: DeviceInfo) -> tuple[Generated | None, str]:
    """Returns (generated kernel or None, reason).

    None means that no kernel was generated, and the device loads the manifest's image. If the plan
    has a program that could not be generated as code, the manifest's kernel reads the program's
    words at run time. The reason then says why; otherwise it is "". Raises ValueError for an
    impossible plan, ImageError if the device lacks doubles.
    """
    if plan is not None and plan.program:
        _check_program(name, plan.program)
    if info.language == "glsl":
        from . import glsl

        if name in glsl.NAMES:  # kernels of other names are in the backend
            shader = glsl.generate(name, plan, info)
            return Generated(shader.source, shader.groups, shader.group_size), ""
    if info.language == "rdna" and plan is not None and plan.program:
        return _rdna(name, plan.program, info)
    return None, ""


def _rdna(name: str, program: tuple[int, ...], info: DeviceInfo) -> tuple[Generated | None, str]:
    from sparkle_drv.amd.tables import targets

    from .rdna import emit

    try:
        made = emit.kernel(name, program, gen=targets.gfx_level(info.isa), chip=info.isa)
    except emit.DoesNotFit as error:
        return None, f"interprets its program: {error}"
    return Generated(made.code, (f"n/{made.elements}",), made.group_size), ""


def _check_program(name: str, program: tuple[Any, ...]) -> None:
    """Raises ValueError unless the kernel takes a program and the program consists of u32 words."""
    entry = assets.entry(name)
    if entry is None or all(arg["name"] != "program" for arg in entry["args"]):
        raise ValueError(f"plan: program: expected none for {name}, which takes no program")
    if not all(type(word) is int and 0 <= word < 1 << 32 for word in program):
        wrong = reprlib.repr(program)
        raise ValueError(f"plan: program: expected a tuple of u32 words, got {wrong}")
