"""Pipelines: a ring of slots. A slot is free again when its fence is reached."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import LONGER, Busy, check, groups_for, kernel, raises

N = 200


class CheckedSlot:
    """One slot of a pipeline: an input, an output, and the commands that compute the output."""

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
    with dev.pipeline(depth=3, make=CheckedSlot) as pipe:
        used: list[CheckedSlot] = []
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
        pipe.submit(second, sp.Commands())
        assert pipe.acquire() is second, "the slot submitted longest ago comes first"
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
    for depth in (0, -1, 10**6):
        with raises(ValueError, says="depth"):
            dev.pipeline(depth)
    for wrong in (2.0, True):
        with raises(TypeError, says="depth"):
            dev.pipeline(wrong)  # type: ignore[arg-type]
    with raises(sp.DeviceLost, says="closed"):
        dev.pipeline(1, None, queue)


@check("pipeline")
def check_acquiring_a_busy_slot_times_out(dev: sp.Device) -> None:
    with Busy(dev) as busy:
        for seconds in LONGER:
            with dev.pipeline(depth=1) as pipe:
                pipe.submit(pipe.acquire(), busy.commands(seconds))
                try:
                    pipe.acquire(0.01)
                except sp.FenceTimeout:
                    pipe.acquire()  # the slot is still there after the timeout
                    return
    raise AssertionError("expected acquire to wait for the slot in flight, but it did not")


@check("pipeline")
def check_acquiring_waits_for_that_slot_alone(dev: sp.Device) -> None:
    with Busy(dev) as busy, dev.buffer(64) as small:
        for seconds in LONGER:
            with dev.pipeline(depth=2) as pipe:
                short, long = pipe.acquire(), pipe.acquire()
                pipe.submit(short, sp.Commands().fill(small, 1))
                pipe.submit(long, busy.commands(seconds))
                assert pipe.acquire() is short
                if pipe.in_flight == 1:
                    pipe.drain()
                    assert pipe.in_flight == 0
                    return
    raise AssertionError(
        "expected acquire to return the first slot while the second one was in flight, but both "
        "had ended each time"
    )


@check("pipeline")
def check_slots_with_queues_of_their_own(dev: sp.Device) -> None:
    with dev.pipeline(depth=3, make=CheckedSlot, overlap=True) as pipe:
        assert len({id(queue) for queue in pipe.queues}) == 3
        fences = []
        for frame in range(9):
            slot = pipe.acquire()
            if frame >= 3:
                assert (np.asarray(slot.y) == 3 * (frame - 3)).all()
            slot.x.buffer.write(np.full(N, frame, np.float32))
            fences.append(pipe.submit(slot, slot.commands))
        assert [fence.value for fence in fences] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
        pipe.drain()
        assert all(fence.done for fence in fences)
    assert all(queue.closed for queue in pipe.queues)
    with dev.queue() as queue, raises(ValueError, says="overlap"):
        dev.pipeline(2, None, queue, overlap=True)


@check("pipeline")
def check_a_failed_making_closes_what_was_made(dev: sp.Device) -> None:
    before = dev.live_counts()["queues"]
    buffers: list[sp.Buffer] = []

    def make(device: sp.Device) -> sp.Buffer:
        if len(buffers) == 2:
            raise ZeroDivisionError
        buffers.append(device.buffer(64))
        return buffers[-1]

    with raises(ZeroDivisionError):
        dev.pipeline(3, make)
    assert [buffer.closed for buffer in buffers] == [True, True]
    assert dev.live_counts()["queues"] == before, "its queue was left open"
    with raises(ValueError, says="a new object for each slot"):
        dev.pipeline(2, lambda: buffers)
    with raises(TypeError, says="make: "):
        dev.pipeline(2, 7)  # type: ignore[arg-type]


@check("pipeline")
def check_a_refused_submission_leaves_the_slot_out(dev: sp.Device) -> None:
    buffer = dev.buffer(64)
    commands = sp.Commands().fill(buffer, 1)
    buffer.close()
    with dev.pipeline(depth=1) as pipe:
        slot = pipe.acquire()
        with raises(ValueError, says="closed"):
            pipe.submit(slot, commands)
        with raises(ValueError, says="all 1 slots"):
            pipe.acquire()
        pipe.submit(slot, sp.Commands())
        assert pipe.acquire() is slot


@check("pipeline")
def check_closing_with_slots_in_flight(dev: sp.Device) -> None:
    with Busy(dev) as busy:
        for seconds in LONGER:
            pipe = dev.pipeline(2, lambda: dev.buffer(64))
            first, second = pipe.acquire(), pipe.acquire()
            fence = pipe.submit(first, busy.commands(seconds))
            try:
                pipe.close(0.01)
            except sp.FenceTimeout:
                assert [pipe.closed, pipe.queue.closed, first.closed] == [False] * 3
                pipe.close()
                assert fence.done, "it was closed before its work had ended"
                assert pipe.closed
                assert first.closed
                assert second.closed, "a slot that was out stays open"
                return
            pipe.close()
    raise AssertionError("expected close to wait for submissions in flight, but it did not")


@check("pipeline")
def check_threads_on_one_pipeline(dev: sp.Device) -> None:
    """Checks that with as many slots as threads, `acquire` never fails and no slot is
    lent twice.
    """
    frames, threads = 50, 3
    lent: set[int] = set()
    lock = threading.Lock()

    def work(thread: int) -> None:
        for frame in range(frames):
            slot = pipe.acquire()
            with lock:
                assert id(slot) not in lent, "a slot was lent to two threads"
                lent.add(id(slot))
            value = 1 + thread * frames + frame
            slot.x.buffer.write(np.full(N, value, np.float32))
            with lock:
                lent.remove(id(slot))
            fence = pipe.submit(slot, slot.commands)
            values.append(fence.value)

    values: list[int] = []
    with dev.pipeline(threads, CheckedSlot) as pipe, ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work, thread) for thread in range(threads)]:
            future.result(60)
        pipe.drain()
        assert len(set(values)) == threads * frames
        for slot in pipe.slots:
            x, y = (np.asarray(array) for array in (slot.x, slot.y))
            assert x[0] > 0
            assert (y == 3 * x).all()
