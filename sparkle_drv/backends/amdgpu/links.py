"""Links between open amdgpu devices: made at the first copy of an ordered pair, ended when either
device closes. What a link is: native/amdgpu/flight/link.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends.amdgpu import unended
from sparkle_drv.errors import check

if TYPE_CHECKING:
    from sparkle_drv.backends.amdgpu.backend import AmdgpuBackend

_open: dict[tuple[AmdgpuBackend, AmdgpuBackend], tuple[Any, Any]] = {}
"""By (reads from, writes to): the link, and the queue of the former that fills its chunks."""


def between(there: AmdgpuBackend, here: AmdgpuBackend) -> Any:
    """The `struct sp_amdgpu_link *` from one device to another; a copy under way keeps it by this.

    Raises OutOfDeviceMemory, DeviceLost, SparkleError, and then nothing is kept.
    """
    pair = there, here
    kept = _open.get(pair)
    if kept is None:
        made = _made(there, here)
        kept = _open.setdefault(pair, made)
        if kept is not made:  # another thread was first
            unended.close(there, made[1])
    return kept[0]  # another thread's `close` may have taken it out meanwhile


def _made(there: AmdgpuBackend, here: AmdgpuBackend) -> tuple[Any, Any]:
    reader = unended.open(there)
    try:
        out = ffi.new("struct sp_amdgpu_link **")
        what = f"memory that {there.info.uri} and {here.info.uri} share"
        check(lib.sp_amdgpu_link_open(here._native.device, reader, out), what, here.info.uri)
        return ffi.gc(out[0], lib.sp_amdgpu_link_close), reader
    except BaseException:
        unended.close(there, reader)
        raise


def close(backend: AmdgpuBackend) -> None:
    """End the links from and to a device. Copies on their way keep what they need."""
    for pair in [pair for pair in list(_open) if backend in pair]:
        _, reader = _open.pop(pair, (None, None))
        if reader is not None:
            unended.close(pair[0], reader)
