"""Loads a manifest kernel as the library itself would: gemm and conv2d with the tile plan that
ops/tiles.py makes for the size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sparkle_drv as sp

Scalars = Mapping[str, int | float]


def load(kernel: str, plan: sp.TilePlan | None, device: sp.Device) -> sp.Kernel:
    """The kernel on the device, made for `plan` where there is one."""
    return device.kernel(kernel, plan=plan)


def plan(kernel: str, scalars: Scalars, info: sp.DeviceInfo) -> sp.TilePlan | None:
    """The tile plan of a gemm or conv2d; None for kernels that take none."""
    from sparkle_drv.ops import tiles
    from sparkle_drv.ops.geometry import Geometry

    s = {name: int(value) for name, value in scalars.items()}
    if kernel.startswith("gemm_"):
        return tiles.gemm(info, s["m"], s["n"], s["k"], 8 if kernel.endswith("f64") else 4)
    if kernel.startswith("conv2d_"):
        shape = Geometry(
            n=s["n"],
            c=s["c"],
            h=s["h"],
            w=s["w_in"],
            oc=s["oc"],
            kernel=(s["kh"], s["kw"]),
            size=(s["oh"], s["ow"]),
            stride=(s["sh"], s["sw"]),
            pad=(s["ph"], s["pw"]),
            dilation=(s["dh"], s["dw"]),
            groups=s["groups"],
            layout="NHWC" if s["nhwc"] else "NCHW",
        )
        return tiles.conv2d(info, shape)
    return None
