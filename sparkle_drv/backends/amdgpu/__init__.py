"""The AMD backend: AMDGPU's kernel interface, PM4 and SDMA packets, and the shader ISA.

`BACKEND` is what the registry opens; it is imported when asked for, because the tables beside it
generate native code and must not need any.
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
