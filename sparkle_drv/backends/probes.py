"""Devices that this version has no backend for: what their drivers say when asked.

No context is made. For `sparkle_drv.discover`, `sparkle.py doctor` and the message of a failed
`open` only. A probe goes when its backend comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.types import Found

NOT_HERE = "this version of sparkle_drv has no backend for it"


def _text(field: Any) -> str:
    text: str = ffi.string(field).decode(errors="replace")
    return text


def _lines(field: Any) -> tuple[str, ...]:
    return tuple(_text(field).splitlines())


def cuda() -> Found:
    """libcuda: loaded, initialised, counted."""
    out = ffi.new("struct sp_dl_cuda *")
    if lib.sp_dl_probe_cuda(ffi.NULL, out):
        advice = "with an NVIDIA GPU: install its driver; in a container pass it through"
        return Found("cuda", "cuda", None, "no NVIDIA driver library", advice, _lines(out.report))
    if out.init_result:
        reason = f"{_text(out.library)} says {_text(out.init_name)}"
    else:
        major, minor = divmod(out.driver_version, 1000)
        found = f"driver for CUDA {major}.{minor // 10} with {out.device_count} device(s)"
        reason = f"{found}, but {NOT_HERE}"
    return Found("cuda", "cuda", reason=reason, tried=_lines(out.report) + _lines(out.devices))


def egl() -> Found:
    """libEGL: loaded, its devices listed."""
    out = ffi.new("struct sp_dl_egl *")
    if lib.sp_dl_probe_egl(ffi.NULL, out):
        advice = "apt-get install libegl1 libgl1-mesa-dri"
        return Found("egl", "egl", None, "no EGL library", advice, _lines(out.report))
    count = "cannot list devices" if out.device_count < 0 else f"lists {out.device_count} device(s)"
    reason = f"EGL {_text(out.version)} {count}, but {NOT_HERE}"
    return Found("egl", "egl", reason=reason, tried=_lines(out.report) + _lines(out.devices))


PROBES: dict[str, Callable[[], Found]] = {"egl": egl, "cuda": cuda}
