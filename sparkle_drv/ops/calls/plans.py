"""Which plan an operation runs by: what `bench.py tune` found for this device and shape (tuned.py),
else what the model says (blocking.py, tiles/conv2d.py); and the kernel loaded for it.

Decided once per device and shape and kept with the device: a call costs one look-up. An algorithm
asked for by name is never overruled. A device that was opened with `deterministic=True` runs by
the model's plan for one thread, whatever it has, and by nothing that was tuned: neither the
algorithm nor the order of additions then depends on how many threads there are. Called by gemm,
conv2d and reduce.
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
from sparkle_drv.ops.tiles import blocking, tuned
from sparkle_drv.ops.tiles import conv2d as tiles_conv2d
from sparkle_drv.types import TilePlan

log = logging.getLogger("sparkle_drv.ops")
MOST_KEPT = 4096
"""Shapes that a device remembers its plan for; beyond that it starts anew."""

Chosen = tuple[Kernel, TilePlan | None]
Key = tuple[object, ...]


def gemm(
    dev: Device, m: int, n: int, k: int, tag: str, algo: str,
    stays: bool = False, a_rows: bool = True, b_rows: bool = True,
) -> Chosen:  # fmt: skip
    """gemm_f32 or gemm_f64 (`tag`) for these sizes, and its plan. stays, a_rows, b_rows: see
    blocking.gemm. On a deterministic device every b counts as one that stays: bits do not depend on
    it."""
    stays = stays or dev.deterministic
    shape = tuned.gemm_shape if algo == "auto" else None
    how = 4 if tag == "f32" else 8, algo, stays, a_rows, b_rows
    return _chosen(dev, f"gemm_{tag}", (m, n, k), shape, blocking.gemm, how)


def packed(dev: Device, kernel: Kernel, plan: TilePlan | None) -> Kernel:
    """The same kernel and plan for packed weights."""
    return staging.kernel(dev, kernel.name, replace(plan or TilePlan(), pack=True))


def conv2d(dev: Device, shape: Geometry, algo: str) -> Chosen:
    """conv2d_f32 for this geometry, and its plan."""
    name = tuned.conv2d_shape if algo == "auto" else None
    return _chosen(dev, "conv2d_f32", (shape,), name, tiles_conv2d.conv2d, (algo,))


def reduce(dev: Device, name: str, outer: int, n: int, inner: int) -> Kernel:
    """The reduction `name` of a manifest for these sizes: only tuning gives one a plan."""
    return _chosen(dev, name, (outer, n, inner), tuned.reduce_shape)[0]


def _chosen(
    dev: Device, kernel: str, sizes: tuple[Any, ...], named: Callable[..., str] | None,
    model: Callable[..., TilePlan] | None = None, how: tuple[Any, ...] = (),
) -> Chosen:  # fmt: skip
    """What was chosen for these sizes, now or before.

    named: what the cache of tuned plans calls the sizes; None: do not look there. model: makes a
    plan for the sizes and for what `how` says.
    """
    kept: dict[Key, Chosen] = dev.kept.setdefault("ops plans", {})
    key = kernel, *sizes, *how
    found = kept.get(key)
    if found is not None and not found[0].closed:
        return found
    if len(kept) >= MOST_KEPT:
        kept.clear()
    shape = named(*sizes) if named and not dev.deterministic else ""
    entry = _tuned(dev).get((kernel, shape)) if shape else None
    if entry is not None:
        try:
            found = kept[key] = staging.kernel(dev, kernel, entry.plan), entry.plan
            return found  # and not what stands there: another thread may begin anew
        except (ValueError, ImageError) as error:
            log.warning(
                "%s: the tuned plan of %s %s is not used: %s", dev.uri, kernel, shape, error
            )
    plan = None if model is None else _model(dev, model, *sizes, *how)
    found = kept[key] = staging.kernel(dev, kernel, plan), plan
    return found


def _model(dev: Device, plan: Callable[..., TilePlan], *what: Any) -> TilePlan:
    """The model's plan; on a deterministic cpu device one that knows nothing of its threads."""
    if not dev.deterministic or dev.info.kind == "gpu":
        return plan(dev.info, *what)
    return replace(plan(replace(dev.info, compute_units=1), *what), threads=0)


def _tuned(dev: Device) -> Any:
    """What was tuned on this device, read at the first look."""
    found = dev.kept.get("ops tuned")
    if found is None:
        found = dev.kept["ops tuned"] = tuned.Tuned(dev.home).entries(dev.info)
    return found
