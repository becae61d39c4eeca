"""Fences: values of a timeline that only grows. Waits are in C or by `await`, and fences are
reached in the order of submission.
"""

from __future__ import annotations

import asyncio

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import LONGER, Busy, check, raises


@check("fences")
def check_values_grow_and_fences_are_ordered(dev: sp.Device) -> None:
    with dev.queue() as queue, dev.queue() as other:
        assert (queue.submitted, queue.reached) == (0, 0)
        fences = [queue.submit(sp.Commands()) for _ in range(20)]
        assert [f.value for f in fences] == list(range(1, 21))
        assert fences == sorted(reversed(fences))
        assert len({*fences, *(queue.fence(f.value) for f in fences)}) == 20
        assert fences[0] == queue.fence(1)
        assert fences[0] != fences[1]
        assert all(f.queue is queue for f in fences)
        stranger = other.submit(sp.Commands())
        assert stranger != fences[0]
        with raises(ValueError, says="different queues"):
            stranger < fences[0]  # noqa: B015
        with raises(TypeError):
            stranger < 3  # type: ignore[operator]  # noqa: B015
        stranger.wait()
        fences[-1].wait()
        assert queue.reached == queue.submitted == 20


@check("fences")
def check_the_last_done_means_all_done(dev: sp.Device) -> None:
    with Busy(dev) as busy, dev.queue() as queue:
        fences = [queue.submit(busy.commands(0.002)) for _ in range(10)]
        before = 0
        while not fences[-1].done:
            reached = queue.reached
            assert reached >= before, f"the timeline went back from {before} to {reached}"
            assert all(f.done for f in fences if f.value <= reached)
            before = reached
        assert all(f.done for f in fences)
        for fence in reversed(fences):
            assert fence.wait(0) is fence


@check("fences")
def check_waiting_for_an_early_fence(dev: sp.Device) -> None:
    with Busy(dev) as busy, dev.queue() as queue:
        first, second = queue.submit(busy.commands(0.005)), queue.submit(busy.commands(0.005))
        first.wait()
        assert first.done
        second.wait()
        assert queue.fence(0).done


@check("fences")
def check_fences_of_values_never_given_out(dev: sp.Device) -> None:
    with dev.queue() as queue:
        queue.submit(sp.Commands()).wait()
        for value in (2, -1, 2**64):
            with raises(ValueError, says="fence: expected a value"):
                queue.fence(value)


@check("fences")
def check_fences_are_awaited(dev: sp.Device) -> None:
    async def three(queue: sp.Queue, busy: Busy) -> list[sp.Fence]:
        fences = [queue.submit(busy.commands(0.01)) for _ in range(3)]
        return [await fence for fence in fences]

    with Busy(dev) as busy, dev.queue() as queue:
        fences = asyncio.run(three(queue, busy))
        assert [fence.value for fence in fences] == [1, 2, 3]
        assert fences[-1].done


@check("fences")
def check_an_awaited_fence_can_be_cancelled(dev: sp.Device) -> None:
    async def impatient(fence: sp.Fence) -> bool:
        try:
            await asyncio.wait_for(fence, 0.01)
        except (asyncio.TimeoutError, TimeoutError):
            return True
        return False

    with Busy(dev) as busy, dev.queue() as queue:
        for seconds in LONGER:  # on a busy machine, the work may end before the await is cancelled
            fence = queue.submit(busy.commands(seconds))
            cancelled = asyncio.run(impatient(fence))
            fence.wait()
            if cancelled:
                return
        raise AssertionError(
            "expected wait_for to cancel an await of a busy queue, got the fence each time"
        )


@check("fences")
def check_waiting_for_the_device(dev: sp.Device) -> None:
    with Busy(dev) as one, Busy(dev) as other, dev.queue() as a, dev.queue() as b:
        # Queues a and b run at once, so each gets a Busy of its own: work that writes another
        # buffer than the other queue's work.
        work = ((a, one), (b, other), (a, one))
        fences = [queue.submit(busy.commands(0.01)) for queue, busy in work]
        dev.wait_idle()
        assert all(fence.done for fence in fences)
        assert dev.idle
