"""Mode pipeline: a ring of slots kept full, its steady state timed by the host's clock.

Each slot has its own operands and its own recorded command list; submitting waits only for the
slot that comes round.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from .bound import Bound, Placement
from .timing import PIPELINE_DEPTH, SAMPLE_NS, Sample

if TYPE_CHECKING:
    import sparkle_drv as sp


class Slot:
    """One slot of the ring: a placement and the list that runs the job on it."""

    def __init__(self, bound: Bound, placement: Placement) -> None:
        import sparkle_drv as sp

        self.commands = sp.Commands().dispatch(
            bound.kernel, *placement.arguments, **bound.launch_options
        )


class Pipelined:
    """Samples of `batch` submissions through a full pipeline; device times are those of the slots'
    own fences.
    """

    primary = "host"

    def __init__(self, bound: Bound) -> None:
        placements = iter(bound.placements)
        self.pipe: sp.Pipeline = bound.device.pipeline(
            PIPELINE_DEPTH, lambda: Slot(bound, next(placements)), bound.queue
        )
        self._fences: list[sp.Fence] = []
        self._timeout_s = bound.launch_timeout_s
        self.batch = PIPELINE_DEPTH
        estimate = min(self._round() for _ in range(3))
        self.batch = max(2 * PIPELINE_DEPTH, math.ceil(5 * SAMPLE_NS / max(estimate, 1.0)))

    def _round(self) -> float:
        """Host ns a submission: the ring stays full between rounds, what one leaves in flight the
        next waits for.
        """
        self._fences.clear()
        start = time.perf_counter_ns()
        for _ in range(self.batch):
            slot = self.pipe.acquire(self._timeout_s)
            self._fences.append(self.pipe.submit(slot, slot.commands))
        return (time.perf_counter_ns() - start) / self.batch

    def sample(self) -> Sample:
        """One round; device times of those submissions of it that have ended already."""
        host = self._round()
        device = [fence.time_ns for fence in self._fences[:-PIPELINE_DEPTH]]
        return sum(device) / len(device), host

    def close(self) -> None:
        self.pipe.drain(timeout_s=self._timeout_s)
        self.pipe.close()
