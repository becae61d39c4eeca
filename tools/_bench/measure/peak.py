"""Measures the roofs of a device with our own kernels: FMAs for flops, and streams far beyond the
caches for memory.

The engine verifies these kernels like any other. A roof is the best sustained rate, not the median:
other programs lower a median, and rows could then exceed the roof. "copy" is the best kernel that
reads and writes. Where a store first fetches the cache line that it overwrites, a plain copy moves
more bytes than it counts; a saxpy does not. "read" is the best of all kernels, for rows that mostly
read. Called by the peak command. `run` measures the same kernels in turns with each row
(interleaved_roofs.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from _bench.jobs import cache_reach, catalog, roofs
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
    """Yields (the roofs so far, the row just measured). A kernel that the device's `manifest` lacks
    has no row. A kernel that fails its check does not change the roofs.
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
            elif job.footprint >= cache_reach.beyond_nbytes(device.info):
                reached = Roof({}, dict.fromkeys(kinds, job.nbytes / best_ns))
            else:
                reached = Roof()  # the row's notes say that its rate may be that of a cache
            roof = roof.raised_to(reached)
        yield roof, row
