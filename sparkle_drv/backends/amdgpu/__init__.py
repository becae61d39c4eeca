"""The amdgpu device: an AMD GPU by DRM ioctls, through native/amdgpu.

Nodes, memory, loading, the packets that native code copies. What is known of AMD's streams without
a device is in sparkle_drv/amd. `BACKEND` is what the registry opens, imported when asked for.
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
