"""Measures the roofs of a device: the FMA kernels for flops, a copy beyond the caches for
bandwidth.

Both go through the engine, so that they are verified like anything else. The roof is the best of
the samples that was sustained, not their median: a roof that a neighbour has pressed down would
let rows exceed it. Called by the peak command, and by run when the cache has nothing for a device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import catalog, engine, stats
from .engine import Settings
from .results import Row
from .roofs import Roof

if TYPE_CHECKING:
    import sparkle_drv as sp

KERNELS = {"peak_fma_f32": "f32", "peak_fma_f64": "f64", "copy_f32": "copy"}


def measure(
    device: sp.Device,
    manifest: dict[str, Any],
    settings: Settings,
    say: Callable[[str], None] = lambda what: None,
) -> tuple[Roof, list[Row]]:
    """(the roofs, the rows they come from). A kernel that the backend lacks, or that fails its
    check, gives none.
    """
    gflops: dict[str, float] = {}
    copied, rows = 0.0, []
    for kernel, kind in KERNELS.items():
        if kernel not in manifest or device.info.backend not in manifest[kernel]["backends"]:
            continue
        say(f"{device.info.uri}: {kernel}")
        point = catalog.expand(kernel, {}, device.info)[0]
        job = catalog.make(kernel, point, device.info, manifest, settings.seed)
        row = engine.run(job, device, "hot", settings, None)
        rows.append(row)
        if row.measured is None:
            continue
        best = stats.best_sustained(row.measured.samples)
        if kind == "copy":
            copied = job.nbytes / best
        else:
            gflops[kind] = row.extra["flops"] / best
    return Roof(gflops, copied), rows
