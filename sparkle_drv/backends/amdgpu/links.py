"""Links for copies from one open amdgpu device to another. A link is made at the first copy between
two devices, and closed when either device closes. native/amdgpu/flight/link.h defines a link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends.amdgpu import peer_queues
from sparkle_drv.errors import check

if TYPE_CHECKING:
    from sparkle_drv.backends.amdgpu.backend import AmdgpuBackend

_open: dict[tuple[AmdgpuBackend, AmdgpuBackend], tuple[Any, Any]] = {}
"""By (source, destination): the link, and the source's queue that fills its chunks."""


def between(there: AmdgpuBackend, here: AmdgpuBackend) -> Any:
    """Returns the `struct sp_amdgpu_link *` from device `there` to device `here`; makes the link if
    there is none. A copy in progress keeps the link alive.

    Raises OutOfDeviceMemory, DeviceLost or SparkleError if no link can be made.
    """
    pair = there, here
    kept = _open.get(pair)
    if kept is None:
        made = _made(there, here)
        kept = _open.setdefault(pair, made)
        if kept is not made:  # another thread has made a link first
            peer_queues.close(there, made[1])
    # Another thread's `close` may have removed the link from `_open` by now. It stays usable.
    return kept[0]


def _made(there: AmdgpuBackend, here: AmdgpuBackend) -> tuple[Any, Any]:
    reader = peer_queues.open(there)
    try:
        out = ffi.new("struct sp_amdgpu_link **")
        what = f"memory that {there.info.uri} and {here.info.uri} share"
        check(lib.sp_amdgpu_link_open(here._native.device, reader, out), what, here.info.uri)
        return ffi.gc(out[0], lib.sp_amdgpu_link_close), reader
    except BaseException:
        peer_queues.close(there, reader)
        raise


def close(backend: AmdgpuBackend) -> None:
    """Closes the links from and to a device. A copy in progress keeps its link alive."""
    for pair in [pair for pair in list(_open) if backend in pair]:
        _, reader = _open.pop(pair, (None, None))
        if reader is not None:
            peer_queues.close(pair[0], reader)
