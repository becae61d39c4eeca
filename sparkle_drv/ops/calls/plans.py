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
    key = ("gemm", m, n, k, tag, algo, stays, a_rows, b_rows)
    found = _kept(dev).get(key)
    if found is not None and not found[0].closed:
        return found
    itemsize = 4 if tag == "f32" else 8
    return _choose(
        dev,
        key,
        f"gemm_{tag}",
        tuned.gemm_shape(m, n, k) if algo == "auto" else "",
        lambda: _model(dev, blocking.gemm, m, n, k, itemsize, algo, stays, a_rows, b_rows),
    )


def packed(dev: Device, kernel: Kernel, plan: TilePlan | None) -> Kernel:
    """The same kernel and plan for packed weights."""
    return staging.kernel(dev, kernel.name, replace(plan or TilePlan(), pack=True))


def conv2d(dev: Device, shape: Geometry, algo: str) -> Chosen:
    """conv2d_f32 for this geometry, and its plan."""
    found = _kept(dev).get(("conv2d", shape, algo))
    if found is not None and not found[0].closed:
        return found
    return _choose(
        dev,
        ("conv2d", shape, algo),
        "conv2d_f32",
        tuned.conv2d_shape(shape) if algo == "auto" else "",
        lambda: _model(dev, tiles_conv2d.conv2d, shape, algo),
    )


def reduce(dev: Device, name: str, outer: int, n: int, inner: int) -> Kernel:
    """The reduction `name` of a manifest for these sizes: only tuning gives one a plan."""
    found = _kept(dev).get((name, outer, n, inner))
    if found is not None and not found[0].closed:
        return found[0]
    shape = tuned.reduce_shape(outer, n, inner)
    return _choose(dev, (name, outer, n, inner), name, shape, lambda: None)[0]


def _kept(dev: Device) -> dict[Key, Chosen]:
    kept: dict[Key, Chosen] = dev.kept.setdefault("ops plans", {})
    return kept


def _choose(
    dev: Device, key: Key, kernel: str, shape: str, model: Callable[[], TilePlan | None]
) -> Chosen:
    """`shape` as the cache names it; "": do not look there."""
    kept = _kept(dev)
    if len(kept) >= MOST_KEPT:
        kept.clear()
    entry = _tuned(dev).get((kernel, shape)) if shape and not dev.deterministic else None
    if entry is not None:
        try:
            found = kept[key] = staging.kernel(dev, kernel, entry.plan), entry.plan
            return found  # and not what stands there: another thread may begin anew
        except (ValueError, ImageError) as error:
            log.warning(
                "%s: the tuned plan of %s %s is not used: %s", dev.uri, kernel, shape, error
            )
    plan = model()
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
