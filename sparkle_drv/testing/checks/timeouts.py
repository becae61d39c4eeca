"""Timeouts: a wait ends in time, its error names the running work, and the work continues."""

from __future__ import annotations

import math
from collections.abc import Callable

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import LONGER, Busy, check, raises

Attempt = Callable[[Busy, float], "sp.FenceTimeout | None"]


def _timed_out(dev: sp.Device, attempt: Attempt) -> sp.FenceTimeout:
    """Returns the timeout that `attempt` raised. Tries longer and longer work, since a slow machine
    may reach the wait only after the work has ended.
    """
    with Busy(dev) as busy:
        for seconds in LONGER:
            met = attempt(busy, seconds)
            if met is not None:
                return met
    raise AssertionError("expected a timeout that names its submission, got none")


def _waited(fence: sp.Fence, timeout_s: float) -> sp.FenceTimeout | None:
    try:
        fence.wait(timeout_s)
    except sp.FenceTimeout as error:
        # `submission` is empty if the work ended just as the wait timed out.
        return error if error.submission else None
    return None


@check("timeouts")
def check_a_wait_times_out_and_tells_the_submission(dev: sp.Device) -> None:
    attempts: list[tuple[sp.Fence, object, str]] = []

    def attempt(busy: Busy, seconds: float) -> sp.FenceTimeout | None:
        commands = busy.commands(seconds)
        fence = queue.submit(commands)
        error = _waited(fence, 0.01)
        attempts.append((fence, commands.commands[0].args[1], queue.describe(fence.value)))  # type: ignore[union-attr]
        assert fence.wait() is fence, "it never ended"
        return error

    with dev.queue() as queue:
        error = _timed_out(dev, attempt)
        fence, steps, described = attempts[-1]
        assert isinstance(error, TimeoutError)
        assert "busy_u32" in error.submission, f"it does not name the kernel: {error}"
        assert f"iters={steps}" in error.submission, f"it does not tell the arguments: {error}"
        assert error.submission in str(error)
        assert f"value {fence.value}" in str(error)
        assert "busy_u32" in described
        assert queue.describe() == "", "an idle queue describes work"


@check("timeouts")
def check_the_submission_behind_the_stuck_one(dev: sp.Device) -> None:
    def attempt(busy: Busy, seconds: float) -> sp.FenceTimeout | None:
        queue.submit(busy.commands(seconds))
        last = queue.submit(sp.Commands().fill(busy.result, 5).barrier())
        error = _waited(last, 0.01)
        last.wait()
        return error

    with dev.queue() as queue:
        error = _timed_out(dev, attempt)
        assert "fill 4 bytes" in error.submission
        assert "not begun" in error.submission


@check("timeouts")
def check_waiting_for_no_time_at_all(dev: sp.Device) -> None:
    def attempt(busy: Busy, seconds: float) -> sp.FenceTimeout | None:
        fence = queue.submit(busy.commands(seconds))
        error = _waited(fence, 0)
        fence.wait()
        return error

    with dev.queue() as queue:
        _timed_out(dev, attempt)


@check("timeouts")
def check_times_that_make_no_sense(dev: sp.Device) -> None:
    with dev.queue() as queue:
        fence = queue.submit(sp.Commands())
        for wrong in (-1, math.nan, math.inf):
            with raises(ValueError, says="timeout_s"):
                fence.wait(wrong)
        for wrong_type in ("soon", None):
            with raises(TypeError, says="timeout_s"):
                fence.wait(wrong_type)  # type: ignore[arg-type]
        fence.wait(timeout_s=10**6)


@check("timeouts")
def check_closing_a_queue_that_still_works(dev: sp.Device) -> None:
    def attempt(busy: Busy, seconds: float) -> sp.FenceTimeout | None:
        met = None
        queue = dev.queue()
        fence = queue.submit(busy.commands(seconds))
        try:
            queue.close(0.01)
        except sp.FenceTimeout as error:
            met = error
        with raises(sp.DeviceLost):  # a queue that is closed or closing accepts no more work
            queue.submit(sp.Commands())
        fence.wait()
        queue.close()
        assert queue.closed
        return met

    assert "busy_u32" in _timed_out(dev, attempt).submission
