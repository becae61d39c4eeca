"""The devices that EGL lists, best first, and the facts of an OpenGL context on such a device.

NVIDIA's devices come first, software devices last. The surfaceless platform names no device, and
EGL may choose any device for it. So this platform is used only if no listed device gives a context.
A listed device may have no driver. A device counts as present only after a context was made on it.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends import machine
from sparkle_drv.errors import DeviceNotFound
from sparkle_drv.types import DeviceInfo

SURFACELESS = -1
ADVICE = (
    "install a driver with EGL; for software rendering: apt-get install libegl1 libgl1-mesa-dri"
)
_FEATURES = {
    "f64": lib.SP_EGL_F64,
    "i64": lib.SP_EGL_I64,
    "spirv": lib.SP_EGL_SPIRV,
    "timer": lib.SP_EGL_TIMER,
    "persistent": lib.SP_EGL_PERSISTENT,
    "binaries": lib.SP_EGL_BINARIES,
    "reset": lib.SP_EGL_RESET,
}


@dataclass(frozen=True)
class EglNode:
    """A device that EGL lists, by its index, or the surfaceless platform (SURFACELESS)."""

    index: int
    software: bool
    node: str
    extensions: str

    def __str__(self) -> str:
        if self.index == SURFACELESS:
            return "EGL surfaceless platform"
        kind = "software" if self.software else self.node or "no node"
        return f"EGL device {self.index} ({kind})"


def rank(node: EglNode) -> tuple[bool, bool, bool, int]:
    """Returns the sort key of a device: the best device is first."""
    nvidia = "EGL_NV_device_cuda" in node.extensions
    return node.index == SURFACELESS, node.software, not nvidia, node.index


def _text(field: Any) -> str:
    text: bytes = ffi.string(field)
    return text.decode(errors="replace")


class Forked(DeviceNotFound):
    """Raised in a forked child if the parent used EGL before the fork. It does not mean that a
    driver is missing.
    """


def listed() -> tuple[list[EglNode], list[str]]:
    """Returns the devices, best first, and a line for each library tried. Raises DeviceNotFound
    without an EGL library.
    """
    out = ffi.new("struct sp_egl_nodes *")
    rc = lib.sp_egl_list(out)
    report = _text(out.report).splitlines()
    if rc == -errno.ECHILD:
        raise Forked(f"egl: {report[0]}: start the child before egl is first used, or spawn it")
    if rc:
        raise DeviceNotFound("egl: expected an EGL library, got none: " + "; ".join(report))
    nodes = [
        EglNode(n.index, bool(n.software), _text(n.node), _text(n.extensions))
        for n in out.node[0 : out.count]
    ]
    return sorted(nodes, key=rank), report


def open_node(node: EglNode) -> Any:
    """Opens a device. Returns a `struct sp_egl *`, which the last reference to it releases. Raises
    DeviceNotFound with the driver's text.
    """
    out = ffi.new("struct sp_egl **")
    why = ffi.new("char[]", 2048)
    rc = lib.sp_egl_open(node.index, why, len(why), out)
    if rc:
        said = _text(why).strip().rstrip(";") or errno.errorcode.get(-rc, str(-rc))
        raise DeviceNotFound(f"{node}: no usable OpenGL context: {said}")
    return ffi.gc(out[0], lib.sp_egl_release)


def info_of(dev: Any, uri: str, node: EglNode) -> tuple[DeviceInfo, Any]:
    """Returns the facts of an OpenGL context, as DeviceInfo and as the native struct."""
    raw = ffi.new("struct sp_egl_info *")
    lib.sp_egl_describe(dev, raw)
    es, software = bool(raw.flags & lib.SP_EGL_ES), bool(raw.flags & lib.SP_EGL_SOFTWARE)
    info = DeviceInfo(
        uri=uri,
        backend="egl",
        name=_text(raw.renderer),
        kind="gpu",
        vendor=_text(raw.vendor),
        driver=f"{'OpenGL ES' if es else 'OpenGL'} {_text(raw.version_text)}",
        memory_nbytes=(0 if software else raw.memory_nbytes) or machine.memory_nbytes(),
        software=software,
        compute_units=machine.thread_count() if software else 1,
        max_group_size=raw.max_invocations,
        max_groups=tuple(raw.max_groups),
        max_shared_nbytes=raw.max_shared_nbytes,
        isa="essl 310" if es else "glsl 430",
        language="glsl",
        caches=machine.caches() if software else (),
        shares=("cpu",) if software else (),
        features=tuple(name for name, bit in _FEATURES.items() if raw.flags & bit),
        offset_alignment=raw.offset_alignment,
        max_pointer_nbytes=raw.max_block_nbytes,
        slot="" if software else machine.slot_of(node.node),
    )
    return info, raw
