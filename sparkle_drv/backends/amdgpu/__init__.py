"""The amdgpu device: an AMD GPU driven by DRM ioctls, through native/amdgpu.

This package has render nodes, memory, loading, and the packets that native code copies.
sparkle_drv/amd has what needs no device, such as the format of AMD's command streams. The registry
opens `BACKEND`, which is imported on demand.

    backend.py           AmdgpuBackend: the protocol of base.py over native/amdgpu
    info.py              facts of a render node: DeviceInfo, chip, caches, limits
    loader.py            loads a kernel: code object, upload, template of its dispatch
    builtin.py           the code objects in shaders/ for kernels of the manifest
    template.py          packets: begin and end of an IB, a dispatch, and its variable parts
    memory.py            handles of memory, host views
    launch_refusal.py    explains launches that native code refused
    links.py             links: the memory through which two devices copy
    peer_queues.py       queues of copies between cards, kept until their work ends
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkle_drv.backends.base import Backend

    BACKEND: type[Backend]


def __getattr__(name: str) -> Any:
    if name != "BACKEND":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sparkle_drv.backends.amdgpu.backend import AmdgpuBackend

    return AmdgpuBackend
