"""Lifetimes: closing objects in flight, closing them twice, never closing them, and using closed
objects, the device included.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import Busy, GuardedOperand, busy_speed, check, kernel, raises


def _own(dev: sp.Device) -> dict[str, int]:
    """Returns counts of live objects of this device alone, since objects of other devices may be
    freed at any time.
    """
    return {k: n for k, n in dev.live_counts().items() if not k.startswith("native_")}


@check("lifetime")
def check_a_buffer_closed_in_flight(dev: sp.Device) -> None:
    with (
        Busy(dev) as busy,
        dev.queue() as queue,
        GuardedOperand(dev, np.zeros(4096, np.uint8)) as other,
    ):
        buffer = dev.buffer(4096)
        commands = busy.commands(0.05).fill(buffer, 0x11, 1).copy(other.buffer, buffer)
        fence = queue.submit(commands)
        buffer.close()
        # the closed buffer's memory must not be reused for these buffers
        fresh = [dev.buffer(4096) for _ in range(4)]
        fence.wait()
        assert (other.read() == 0x11).all(), "the memory went while it was in use"
        for one in fresh:
            assert not one.read(np.uint8, 4096).any(), "memory in use was given out again"
            one.close()
        with raises(ValueError, says="closed"):
            queue.submit(commands)
        assert dev.live_counts()["retired"] == 0


@check("lifetime")
def check_a_kernel_closed_in_flight(dev: sp.Device) -> None:
    with Busy(dev) as busy, dev.queue() as queue, dev.buffer(400) as y:
        fill = kernel(dev, "fill_f32")
        commands = busy.commands(0.05).dispatch(fill, y, 4.0, 100, groups=1)
        fence = queue.submit(commands)
        fill.close()
        fence.wait()
        assert (y.read(np.float32, 100) == 4).all()
        with raises(ValueError, says="closed"):
            queue.submit(commands)
        with raises(ValueError, says="closed"):
            queue.launch(fill, y, 4.0, 100, groups=1)
        with raises(ValueError, says="closed"):
            sp.Commands().dispatch(fill, y, 4.0, 100, groups=1)


@check("lifetime")
def check_a_queue_closed_in_flight_is_waited_for(dev: sp.Device) -> None:
    with Busy(dev) as busy, dev.buffer(64) as y:
        queue = dev.queue()
        fence = queue.submit(busy.commands(0.02).fill(y, 3))
        queue.close()
        assert fence.done
        fence.wait()
        assert (y.read(np.uint32, 16) == 3).all()


@check("lifetime")
def check_a_closed_queue_takes_no_work(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as fill, dev.buffer(400) as y:
        queue = dev.queue()
        go = queue.prepare(fill, y, 1.0, 100, groups=1)
        queue.close()
        out = np.zeros(100, np.float32)
        attempts: list[Callable[[], object]] = [
            lambda: queue.launch(fill, y, 1.0, 100, groups=1),
            lambda: queue.submit(sp.Commands().fill(y, 1)),
            lambda: queue.write(y, out),
            lambda: queue.read(y, out),
            go,
        ]
        for at, attempt in enumerate(attempts):
            with raises(sp.DeviceLost, says="closed"):
                attempt()
                raise AssertionError(f"attempt {at}: expected DeviceLost, got no error")
        assert not y.read(np.uint8, 400).any()


@check("lifetime")
def check_closing_twice(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as fill:
        things: list[Any] = [
            dev.buffer(64), dev.empty(4, np.float32), dev.queue(), fill, dev.pipeline(2),
            dev.timestamp(), dev.buffer(64).view(0, 8),
        ]  # fmt: skip
        before = _own(dev)
        for owner in things:
            owner.close()
        after = _own(dev)
        assert after["buffers"] < before["buffers"]
        for owner in things:
            owner.close()
            repr(owner)
        assert _own(dev) == after, "the second close changed something"


@check("lifetime")
def check_forgotten_objects_are_finalized(dev: sp.Device) -> None:
    before = _own(dev)
    for _ in range(3):
        y = dev.empty(100, np.float32)
        fill, queue = kernel(dev, "fill_f32"), dev.queue()
        commands = sp.Commands().dispatch(fill, y, 1.0, 100, groups=1)
        queue.submit(commands).wait()
        go = queue.prepare(fill, y, 2.0, 100, groups=1)
        queue.fence(go()).wait()
    assert _own(dev) != before
    del y, fill, queue, commands, go
    gc.collect()
    after = _own(dev)
    # `after` counts objects of this device only. suite.py reports native objects that are left.
    assert after == before, f"{after} is left of {before}"


@check("lifetime")
def check_memory_forgotten_in_flight(dev: sp.Device) -> None:
    with Busy(dev) as busy, GuardedOperand(dev, np.zeros(4096, np.uint8)) as other:
        buffer = dev.buffer(4096)
        fence = dev.default_queue.submit(
            busy.commands(0.05).fill(buffer, 0x22, 1).copy(other.buffer, buffer)
        )
        del buffer
        gc.collect()
        fresh = dev.buffer(4096)
        fence.wait()
        assert (other.read() == 0x22).all(), "the memory went while it was in use"
        assert not fresh.read(np.uint8, 4096).any(), "memory in use was given out again"
        fresh.close()


@check("lifetime")
def check_a_list_keeps_what_it_uses(dev: sp.Device) -> None:
    with dev.buffer(4096) as other:
        commands = sp.Commands().copy(other, dev.buffer(4096))
        commands.dispatch(kernel(dev, "fill_f32"), other.view(0, 400), 1.0, 100, groups=1)
        for _ in range(2):
            gc.collect()
            dev.default_queue.submit(commands).wait()
        assert (other.read(np.float32, 100) == 1).all()


@check("lifetime")
def check_closed_buffers_and_their_arrays_are_refused(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as fill, dev.buffer(400) as open_one:
        parent = dev.buffer(400)
        view, array = parent.view(0, 200), parent.array(np.float32, 100)
        parent.close()
        out = np.zeros(10, np.float32)
        closed: Any
        for closed in (parent, view, array):
            assert closed.closed
            uses: list[Callable[[], object]] = [
                lambda: dev.default_queue.launch(fill, closed, 1.0, 10, groups=1),  # noqa: B023
                lambda: sp.Commands().fill(closed, 1),  # noqa: B023
                lambda: sp.Commands().copy(closed, open_one),  # noqa: B023
                lambda: sp.Commands().dispatch(fill, closed, 1.0, 10, groups=1),  # noqa: B023
                lambda: dev.default_queue.write(closed, out),  # noqa: B023
                lambda: dev.default_queue.read(closed, out),  # noqa: B023
            ]
            for use in uses:
                with raises(ValueError, says="closed"):
                    use()
        for gone_buffer in (parent, view):
            for attribute in ("address", "memory", "device"):
                with raises(ValueError, says="closed"):
                    getattr(gone_buffer, attribute)
        with raises(ValueError, says="closed"):
            parent.view()
        with raises(ValueError, says="closed"), parent.map():
            pass
        with raises(ValueError, says="closed"):
            array.numpy()


@check("lifetime")
def check_a_closed_device_refuses_everything(dev: sp.Device) -> None:
    mine = sp.open(dev.uri)
    fill, buffer, queue = mine.kernel("noop"), mine.buffer(64), mine.queue()
    array, stamp = mine.empty(4, np.float32), mine.timestamp()
    go = queue.prepare(fill, groups=1)
    commands = sp.Commands().fill(buffer, 1)
    fence = queue.submit(commands)
    mine.close()
    mine.close()
    assert mine.closed
    assert queue.closed
    assert fill.closed
    assert buffer.closed
    assert array.closed
    assert fence.done, "the device was closed over work in flight"
    assert mine.info.uri == dev.uri
    uses: list[Callable[[], object]] = [
        lambda: mine.buffer(4), lambda: mine.empty(4, np.float32), lambda: mine.array(np.ones(3)),
        lambda: mine.kernel("noop"), lambda: mine.queue(), mine.timestamp, mine.pipeline,
        lambda: mine.default_queue, mine.wait_idle, lambda: sp.wrap(mine, np.ones(3)),
        lambda: queue.launch(fill, groups=1), lambda: queue.submit(commands), go,
    ]  # fmt: skip
    for use in uses:
        with raises(sp.DeviceLost, ValueError, says="closed"):
            use()
    with raises(ValueError, sp.DeviceLost, says="closed"):
        stamp.ns  # noqa: B018
    repr(mine), repr(fill), repr(buffer), repr(queue), repr(array), repr(fence)


@check("lifetime")
def check_a_device_closed_over_work_waits_for_it(dev: sp.Device) -> None:
    with sp.open(dev.uri) as mine:
        busy_speed(mine, busy_speed(dev))
        one, other = Busy(mine), Busy(mine)
        work = ((mine.queue(), one), (mine.default_queue, other))
        fences = [queue.submit(busy.commands(0.02)) for queue, busy in work]
        mine.close()
        assert all(fence.done for fence in fences)
