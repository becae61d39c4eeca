"""Loads kernels: finds the code object, uploads its image, makes the template of a dispatch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.amd.code import codeobject
from sparkle_drv.amd.code.codeobject import CodeObject
from sparkle_drv.amd.tables import targets
from sparkle_drv.backends.amdgpu import builtin, template
from sparkle_drv.backends.amdgpu.info import Chip
from sparkle_drv.backends.amdgpu.memory import MemoryHandle
from sparkle_drv.backends.base import KernelSpec, Loaded
from sparkle_drv.backends.native import kernel_pointer
from sparkle_drv.backends.precompiled_plans import check_plan
from sparkle_drv.errors import check
from sparkle_drv.types import Resources


class KernelHandle:
    """A loaded kernel, which keeps its code alive."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: Any) -> None:
        self.kernel = ffi.gc(kernel, lib.sp_amdgpu_unload)

    def drop(self) -> None:
        """Frees the kernel now."""
        kernel, self.kernel = self.kernel, None
        if kernel is not None:
            ffi.release(kernel)


def _blob(spec: KernelSpec, isa: str) -> tuple[bytes, str]:
    """Returns the bytes of the code object, and its name for messages."""
    if spec.manifest is None:
        if spec.path:
            return Path(spec.path).read_bytes(), spec.path
        return spec.image, f"image of {len(spec.image)} bytes"
    return builtin.image(spec.manifest, targets.accepted(isa))


def _place(code: CodeObject, take: Callable[[int, int], MemoryHandle], uri: str) -> Any:
    """Uploads the image to memory that `take` allocates. Returns that memory, and the image's
    address.
    """
    kind = lib.SP_AMDGPU_CODE_AND_DATA if code.image.writable else lib.SP_AMDGPU_CODE
    slack = code.image.align if code.image.align > 4096 else 0
    memory = take(code.image.nbytes + slack, kind)
    at = memory.allocation().address
    skip = -at % code.image.align
    placed = code.image.place(at + skip)
    view = memory.map(skip + len(placed), uri)
    view[skip:] = bytes(placed)
    return memory, at + skip


def load(
    spec: KernelSpec,
    chip: Chip,
    uri: str,
    take: Callable[[int, int], MemoryHandle],
    device: Any,
) -> Loaded:
    """Loads a kernel of the manifest, of a map's expression, or of a user's code object. Raises
    ImageError if the code cannot be loaded, and ValueError for a plan that the kernel cannot
    follow.
    """
    check_plan(spec, "amdgpu")
    if spec.made:
        code = spec.made.code
    else:
        blob, what = _blob(spec, chip.isa)
        code = codeobject.load(
            blob, spec.entry, mach=targets.accepted(chip.isa), args=spec.args, name=what
        )
    memory, va = _place(code, take, uri)
    packets = template.of_kernel(code, gfx=chip.gfx, code_va=va, name=spec.name)
    out = ffi.new("struct sp_amdgpu_kernel **")
    check(
        lib.sp_amdgpu_load(device, packets, spec.native, memory.pointer, out),
        f"load {spec.name}",
        uri,
    )
    memory.drop()  # the loaded GPU kernel keeps a reference to this memory
    handle = KernelHandle(out[0])
    groups: tuple[str, ...] = ()
    size = code.required_group_size
    if spec.made:
        groups, size = spec.made.groups, spec.made.group_size
    elif spec.manifest is not None:
        groups = tuple(spec.manifest.get("groups", ()))
        if spec.manifest["form"] == "routine" or size:
            size = tuple(spec.manifest["group_size"])
    resources = Resources(
        code.max_group_size,
        registers=code.vgprs,
        shared_nbytes=code.lds_nbytes,
        spill_nbytes=code.scratch_nbytes,
        isa=code.target,
    )
    return Loaded(handle, kernel_pointer(handle.kernel), "grid", resources, groups, size)
