"""Chooses the tile plan of an operation and loads its kernel.

The plan is the one that `bench.py tune` found for this device and shape (tuned_plans.py). If `tune`
found none, the tile model makes the plan (blocking.py, tiles/conv2d.py). A plan is chosen once per
device and shape and kept with the device, so a call costs one lookup. If the caller names an
algorithm, the plan has that algorithm.

A device opened with `deterministic=True` uses the model's plan for one thread and no tuned plan.
Then neither the algorithm nor the order of additions depends on the number of threads. gemm, conv2d
and reduce call this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparkle_drv.core.device import Device
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.errors import ImageError
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.shapes.geometry import Geometry
from sparkle_drv.ops.tiles import blocking, tuned_plans
from sparkle_drv.ops.tiles import conv2d as tiles_conv2d
from sparkle_drv.types import TilePlan

log = logging.getLogger("sparkle_drv.ops")
MOST_KEPT = 4096
"""The most plans that a device keeps. A device that has as many drops all before it adds one."""

Chosen = tuple[Kernel, TilePlan | None]
Key = tuple[object, ...]


def gemm(
    dev: Device, m: int, n: int, k: int, tag: str, algo: str,
    stays: bool = False, a_rows: bool = True, b_rows: bool = True,
) -> Chosen:  # fmt: skip
    """Returns gemm_f32 or gemm_f64 (by `tag`) for these sizes, and its plan.

    blocking.gemm explains stays, a_rows and b_rows. On a deterministic device `stays` counts as
    True, so that the bits of a result do not depend on `stays`.
    """
    stays = stays or dev.deterministic
    shape = tuned_plans.gemm_shape if algo == "auto" else None
    how = 4 if tag == "f32" else 8, algo, stays, a_rows, b_rows
    return _chosen(dev, f"gemm_{tag}", (m, n, k), shape, blocking.gemm, how)


def packed(dev: Device, kernel: Kernel, plan: TilePlan | None) -> Kernel:
    """Returns the same kernel, loaded with this plan such that it reads packed weights."""
    return staging.kernel(dev, kernel.name, replace(plan or TilePlan(), pack=True))


def conv2d(dev: Device, shape: Geometry, algo: str) -> Chosen:
    """Returns conv2d_f32 for this geometry, and its plan."""
    name = tuned_plans.conv2d_shape if algo == "auto" else None
    return _chosen(dev, "conv2d_f32", (shape,), name, tiles_conv2d.conv2d, (algo,))


def reduce(dev: Device, name: str, outer: int, n: int, inner: int) -> Kernel:
    """Returns the manifest's reduction `name` for these sizes. Its plan is a tuned one or None."""
    return _chosen(dev, name, (outer, n, inner), tuned_plans.reduce_shape)[0]


def _chosen(
    dev: Device, kernel: str, sizes: tuple[Any, ...], named: Callable[..., str] | None,
    model: Callable[..., TilePlan] | None = None, how: tuple[Any, ...] = (),
) -> Chosen:  # fmt: skip
    """Returns the kernel and plan for these sizes, chosen now or in an earlier call.

    named(*sizes) is the key under which a tuned plan is looked up; if `named` is None, no tuned
    plan is used. If there is no tuned plan, model(info, *sizes, *how) makes the plan; `how` are
    further options of `model`.
    """
    kept: dict[Key, Chosen] = dev.kept.setdefault("ops plans", {})
    key = kernel, *sizes, *how
    chosen = kept.get(key)
    if chosen is not None and not chosen[0].closed:
        return chosen
    if len(kept) >= MOST_KEPT:
        kept.clear()
    shape = named(*sizes) if named and not dev.deterministic else ""
    entry = _tuned(dev).get((kernel, shape)) if shape else None
    if entry is not None:
        try:
            chosen = kept[key] = staging.kernel(dev, kernel, entry.plan), entry.plan
            return chosen  # not kept[key]: another thread may clear `kept`
        except (ValueError, ImageError) as error:
            log.warning(
                "%s: the tuned plan of %s %s is not used: %s", dev.uri, kernel, shape, error
            )
    plan = None if model is None else _model(dev, model, *sizes, *how)
    chosen = kept[key] = staging.kernel(dev, kernel, plan), plan
    return chosen


def _model(dev: Device, plan: Callable[..., TilePlan], *what: Any) -> TilePlan:
    """Calls `plan`, a function of the tile model, with the sizes `what`. Returns its TilePlan.

    On a deterministic cpu device, the TilePlan does not depend on the number of threads.
    """
    if not dev.deterministic or dev.info.kind == "gpu":
        return plan(dev.info, *what)
    return replace(plan(replace(dev.info, compute_units=1), *what), threads=0)


def _tuned(dev: Device) -> Any:
    """Returns the tuned plans of this device. Their file is read at first use."""
    found = dev.kept.get("ops tuned")
    if found is None:
        found = dev.kept["ops tuned"] = tuned_plans.Tuned(dev.home).entries(dev.info)
    return found
