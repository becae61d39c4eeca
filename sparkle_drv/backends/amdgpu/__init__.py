"""The amdgpu device: an AMD GPU by DRM ioctls, through native/amdgpu.

Nodes, memory, loading, the packets that native code copies. What is known of AMD's streams without
a device is in sparkle_drv/amd. `BACKEND` is what the registry opens, imported when asked for.

    backend.py           AmdgpuBackend: the protocol of base.py over native/amdgpu
    info.py              what a node says of itself: DeviceInfo, chip, caches, limits
    loader.py            loads a kernel: code object, upload, template of its dispatch
    builtin.py           which code object of shaders/ a manifest's kernel has
    template.py          packets: begin and end of an IB, a dispatch, and what changes in it
    memory.py            handles of memory, host views
    launch_refusal.py    words for a launch that native code refused
    links.py             what two devices share for copies between them
    unended.py           queues of copies between cards, kept until their work ends
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
