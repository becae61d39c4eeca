"""Measures the roofs of a device with our own kernels: FMAs for flops, and streams far beyond the
caches for memory.

All go through the engine, so that they are verified like anything else. A roof is the best that was
sustained, not a median: one that a neighbour has pressed down would let rows exceed it. "copy" is
the best of the kernels that read and write: where stores first fetch what they overwrite, a plain
copy moves more than it counts and a saxpy does not. "read" is the best of all, for kernels that do
little but read. Called by the peak command; run has the same kernels beside each row (beside.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from _bench.jobs import catalog, roofs
from _bench.jobs.roofs import Roof
from _bench.rows import stats
from _bench.rows.results import Row

from . import engine
from .engine import Settings

if TYPE_CHECKING:
    import sparkle_drv as sp


def measure(
    device: sp.Device,
    manifest: dict[str, Any],
    settings: Settings,
    say: Callable[[str], None] = lambda what: None,
) -> Iterator[tuple[Roof, Row]]:
    """(the roofs so far, the row just measured). A kernel that `manifest`, that of the device,
    lacks gives no row; one that fails its check raises no roof.
    """
    roof = Roof()
    for kernel, kinds in roofs.KERNELS.items():
        if kernel not in manifest:
            continue
        say(f"{device.info.uri}: {kernel}")
        point = catalog.expand(kernel, {}, device.info)[0]
        job = catalog.make(kernel, point, device.info, manifest, settings.seed)
        row = engine.run(job, device, "hot", settings, None)
        if row.measured is not None:
            best_ns = stats.best_sustained(row.measured.samples)
            if job.flops_output:
                reached = Roof(dict.fromkeys(kinds, row.extra["flops"] / best_ns))
            else:
                reached = Roof({}, dict.fromkeys(kinds, job.nbytes / best_ns))
            roof = roof.raised_to(reached)
        yield roof, row
