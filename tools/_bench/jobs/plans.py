"""The tile plan of a kernel at one size of the problem.

`model` computes a plan from facts about the device, by ops/tiles. `plan` returns the plan that
sparkle_drv.ops uses: the one that `bench.py tune` found and stored in SPARKLE_HOME/tuned.json, or
else that of `model`. Called by catalog.py and tune.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sparkle_drv as sp
    from sparkle_drv.ops.shapes.geometry import Geometry

Scalars = Mapping[str, int | float]


def load(kernel: str, plan: sp.TilePlan | None, device: sp.Device) -> sp.Kernel:
    """Loads the kernel on the device, made for `plan` if there is one."""
    return device.kernel(kernel, plan=plan)


def plan(kernel: str, scalars: Scalars, info: sp.DeviceInfo) -> sp.TilePlan | None:
    """Returns the tile plan that sparkle_drv.ops would use: a tuned one, or else the model's.
    Returns None if the kernel takes no plan.
    """
    from sparkle_drv.ops.tiles import tuned_plans

    named = shape(kernel, scalars)
    if not named:
        return None
    home = os.environ.get("SPARKLE_HOME") or os.path.expanduser("~/.sparkle")
    entry = tuned_plans.Tuned(home).entries(info).get((kernel, named))
    if entry is not None:
        return entry.plan
    return None if kernel.startswith("reduce_") else model(kernel, scalars, info)


def model(kernel: str, scalars: Scalars, info: sp.DeviceInfo) -> sp.TilePlan | None:
    """Returns the tile plan that ops/tiles computes from facts about the device. Returns None if
    the kernel takes no plan.
    """
    from sparkle_drv.ops import tiles
    from sparkle_drv.ops.tiles import conv2d as tiles_conv2d

    s = {name: int(value) for name, value in scalars.items()}
    if kernel.startswith("gemm_"):
        return tiles.gemm(info, s["m"], s["n"], s["k"], 8 if kernel.endswith("f64") else 4)
    if kernel.startswith("conv2d_"):
        return tiles_conv2d.conv2d(info, _geometry(s))
    if kernel.startswith("reduce_") and info.kind == "gpu":
        return tiles.reduce(info)
    return None


def executed(scalars: Scalars, plan: sp.TilePlan | None) -> float:
    """Returns the flops of the matrix products in Winograd's algorithm. Returns 0 if the plan uses
    another algorithm.
    """
    from sparkle_drv.ops.tiles import winograd as tiles_winograd

    edge = tiles_winograd.EDGES.get(plan.algo) if plan else None
    if edge is None:
        return 0.0
    return tiles_winograd.flops(_geometry({n: int(v) for n, v in scalars.items()}), edge)


def shape(kernel: str, scalars: Scalars) -> str:
    """Returns the shape's key in the cache of tuned plans. "" if the kernel takes no plan."""
    from sparkle_drv.ops.tiles import tuned_plans

    s = {name: int(value) for name, value in scalars.items()}
    if kernel.startswith("gemm_"):
        return tuned_plans.gemm_shape(s["m"], s["n"], s["k"])
    if kernel.startswith("conv2d_"):
        return tuned_plans.conv2d_shape(_geometry(s))
    if kernel.startswith("reduce_"):
        return tuned_plans.reduce_shape(s["outer"], s["n"], s["inner"])
    return ""


def _geometry(s: Mapping[str, int]) -> Geometry:
    from sparkle_drv.ops.shapes.geometry import Geometry

    return Geometry(
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
