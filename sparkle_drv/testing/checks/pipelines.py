"""Pipelines: a ring of slots that come round when their fence is reached."""

from __future__ import annotations

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import Busy, check, groups_for, kernel, raises

N = 200


class Slot:
    """What one frame needs: an input, an output, and the list that makes one of the other."""

    def __init__(self, dev: sp.Device) -> None:
        self.kernel = kernel(dev, "saxpy_f32")
        self.x, self.y = dev.empty(N, np.float32), dev.empty(N, np.float32)
        groups = groups_for(self.kernel, N)
        self.commands = sp.Commands().fill(self.y, 0)
        self.commands.dispatch(self.kernel, self.y, self.x, 3.0, N, groups=groups)

    def close(self) -> None:
        for part in (self.x, self.y, self.kernel):
            part.close()


@check("pipeline")
def check_frames_through_three_slots(dev: sp.Device) -> None:
    with dev.pipeline(depth=3, make=Slot) as pipe:
        used: list[Slot] = []
        for frame in range(10):
            slot = pipe.acquire()
            if frame >= 3:
                assert slot is used[frame - 3], "the slots do not take turns"
                assert (np.asarray(slot.y) == 3 * (frame - 3)).all()
            slot.x.buffer.write(np.full(N, frame, np.float32))
            fence = pipe.submit(slot, slot.commands)
            used.append(slot)
        pipe.drain()
        assert fence.done
        assert len({id(slot) for slot in used}) == 3
    assert pipe.closed
    assert pipe.queue.closed
    assert used[0].x.closed, "a slot with close() was not closed"


@check("pipeline")
def check_slots_are_refused_when_out_or_foreign(dev: sp.Device) -> None:
    with dev.pipeline(depth=2) as pipe:
        first, second = pipe.acquire(), pipe.acquire()
        assert (first.index, second.index) == (0, 1)
        with raises(ValueError, says="all 2 slots"):
            pipe.acquire()
        with raises(ValueError, says="not acquired"):
            pipe.submit(object(), sp.Commands())
        pipe.submit(first, sp.Commands())
        with raises(ValueError, says="not acquired"):
            pipe.submit(first, sp.Commands())
        assert pipe.acquire() is first
    with raises(ValueError, says="closed"):
        pipe.acquire()
    with raises(ValueError, says="closed"):
        pipe.submit(first, sp.Commands())
    pipe.close()


@check("pipeline")
def check_a_pipeline_on_a_queue_of_ones_own(dev: sp.Device) -> None:
    with dev.queue() as queue:
        with dev.pipeline(1, lambda: [], queue) as pipe:
            assert pipe.acquire() == []
        assert not queue.closed, "it closed a queue that it did not open"
    for depth in (0, -1, 2.0, True, 10**6):
        with raises(ValueError, says="depth"):
            dev.pipeline(depth)  # type: ignore[arg-type]


@check("pipeline")
def check_acquiring_a_busy_slot_times_out(dev: sp.Device) -> None:
    with Busy(dev) as busy:
        for seconds in (0.3, 1.2, 4.8):
            with dev.pipeline(depth=1) as pipe:
                pipe.submit(pipe.acquire(), busy.commands(seconds))
                try:
                    pipe.acquire(0.01)
                except sp.FenceTimeout:
                    pipe.acquire()  # nothing was lost by it
                    return
    raise AssertionError("a slot in flight was given out")
