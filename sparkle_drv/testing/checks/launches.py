"""Launching: `launch`, `prepare`, arrays as arguments, launch shapes and timing queues. A refused
launch leaves the device unchanged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import (
    Busy,
    NotProvided,
    check,
    groups_for,
    kernel,
    raises,
    seeded,
)


@check("launch")
def check_launch_computes(dev: sp.Device) -> None:
    with seeded() as rng, kernel(dev, "vecadd_f32") as k, dev.queue() as queue:
        x, y = rng.standard_normal((2, 1000)).astype(np.float32)
        with dev.array(x) as a, dev.array(y) as b, dev.empty(1000, np.float32) as z:
            fence = queue.launch(k, z, a, b, 1000, groups=groups_for(k, 1000))
            assert fence.wait() is fence
            assert (np.asarray(z) == x + y).all()


@check("launch")
def check_group_counts_as_int_and_tuples(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as k, dev.buffer(4000) as y:
        groups = groups_for(k, 1000)
        for value, shape in enumerate(
            (groups, (groups,), (groups, 1), (groups, 1, 1), [groups, 1, 1])
        ):
            dev.default_queue.launch(k, y, value, 1000, groups=shape).wait()
            assert (y.read(np.float32, 1000) == value).all(), f"groups={shape!r}"
        size = list(k.group_size)
        dev.default_queue.launch(k, y, 9.5, 1000, groups=groups, group_size=size).wait()
        assert (y.read(np.float32, 1000) == 9.5).all()


@check("launch")
def check_fewer_groups_do_only_their_share(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as k:
        size = k.group_size[0]
        with dev.buffer(4 * 3 * size) as y:
            dev.default_queue.launch(k, y, 2.0, 3 * size, groups=2).wait()
            filled = y.read(np.float32, 3 * size)
            assert (filled[: 2 * size] == 2).all()
            assert not filled[2 * size :].any(), "threads ran that were not asked for"


@check("launch")
def check_zero_groups_and_zero_elements_do_nothing(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as k, dev.buffer(4000) as y, dev.buffer(0) as none:
        queue = dev.default_queue
        queue.launch(k, y, 1.0, 1000, groups=0).wait()
        queue.launch(k, y, 1.0, 1000, groups=(0, 1, 1)).wait()
        queue.launch(k, y, 1.0, 0, groups=4).wait()
        queue.launch(k, none, 1.0, 0, groups=1).wait()
        queue.submit(sp.Commands().dispatch(k, y, 1.0, 1000, groups=0)).wait()
        assert not y.read(np.float32, 1000).any()


@check("launch")
def check_prepared_launches(dev: sp.Device) -> None:
    with (
        kernel(dev, "saxpy_f32") as k,
        dev.queue() as queue,
        dev.array(np.ones(300, np.float32)) as x,
        dev.empty(300, np.float32) as y,
    ):
        go = queue.prepare(k, y, x, 2.0, 300, groups=groups_for(k, 300))
        assert queue.submitted == 0, "prepare launched something"
        values = [go() for _ in range(10)]
        assert all(isinstance(value, int) for value in values)
        assert values == sorted(set(values)), f"values do not grow: {values}"
        queue.fence(values[-1]).wait()
        assert (np.asarray(y) == 20).all()


@check("launch")
def check_a_prepared_launch_of_something_closed(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as k, kernel(dev, "fill_f32") as closed, dev.queue() as queue:
        with dev.buffer(400) as y:
            go = queue.prepare(k, y, 1.0, 100, groups=1)
            other = queue.prepare(closed, y, 1.0, 100, groups=1)
            queue.fence(go()).wait()
            closed.close()
            with raises(ValueError, says="closed"):
                other()
            queue.fence(
                go()
                # Closing another object makes the prepared launch check its own objects again. They
                # are open, so it runs.
            ).wait()
        with raises(ValueError, says="closed"):
            go()


@check("launch")
def check_routines_take_one_group(dev: sp.Device) -> None:
    with kernel(dev, "reduce_sum_f32") as k:
        if k.form != "routine":
            raise NotProvided("expected reduce_sum_f32 to be a routine, got a grid kernel")
        with dev.array(np.arange(10, dtype=np.float32)) as x, dev.empty(1, np.float32) as y:
            groups: Any
            for groups in (None, 1, (1, 1, 1)):
                dev.default_queue.launch(k, y, x, 1, 10, 1, groups=groups).wait()
                assert np.asarray(y)[0] == 45
            for groups in (2, 0, (1, 2)):
                with raises(ValueError, says="routine"):
                    dev.default_queue.launch(k, y, x, 1, 10, 1, groups=groups)


@check("launch")
def check_arguments_are_copied_at_launch(dev: sp.Device) -> None:
    with (
        kernel(dev, "fill_f32") as k,
        Busy(dev) as busy,
        dev.queue() as queue,
        dev.buffer(256 * 16) as y,
    ):
        queue.submit(busy.commands(0.02))
        fences = [queue.launch(k, y.view(256 * i, 256), float(i), 64, groups=1) for i in range(16)]
        fences[-1].wait()
        found = y.read(np.float32, (16, 64))
        assert (found == np.arange(16)[:, None]).all()


@check("launch")
def check_optional_pointers(dev: sp.Device) -> None:
    with kernel(dev, "gemm_f32") as k, dev.array(np.eye(3, dtype=np.float32)) as eye:
        sizes = (3, 3, 3, 3, 1, 3, 1, 3, 0)
        with dev.array(np.full(3, 5, np.float32)) as bias, dev.empty((3, 3), np.float32) as c:
            dev.default_queue.launch(k, c, eye, eye, None, *sizes).wait()
            assert (np.asarray(c) == np.eye(3)).all()
            dev.default_queue.launch(k, c, eye, eye, bias, *sizes).wait()
            assert (np.asarray(c) == np.eye(3) + 5).all()


@check("launch")
def check_host_arrays_as_arguments(dev: sp.Device) -> None:
    x, y = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    with kernel(dev, "copy_f32") as k:
        if not dev.info.unified:
            with raises(TypeError, says="argument y"):
                dev.default_queue.launch(k, y, x, 50, groups=1)
            return
        dev.default_queue.launch(k, y, x, 50, groups=1).wait()
        assert (y == x).all()


@check("launch")
def check_times_of_a_timing_queue(dev: sp.Device) -> None:
    with Busy(dev) as busy, dev.queue(timing=True) as queue:
        short = queue.submit(busy.commands(0.001))
        long = queue.submit(busy.commands(0.05))
        direct = queue.launch(busy.kernel, busy.result, 1000, groups=1)
        for fence in (short, long, direct):
            assert 0 < fence.time_ns < 3600e9, f"{fence.time_ns} ns"
        assert queue.timing
    with dev.queue() as queue:
        fence = queue.submit(sp.Commands())
        with raises(ValueError, says="timing=True"):
            fence.time_ns  # noqa: B018
        fence.wait()


@check("launch")
def check_what_a_kernel_tells_about_itself(dev: sp.Device) -> None:
    with kernel(dev, "saxpy_f32") as k:
        assert k.name == "saxpy_f32"
        assert [arg.name for arg in k.args] == ["y", "x", "a", "n"]
        assert k.form in ("grid", "routine")
        assert k.device is dev
        assert len(k.group_size) == 3
        assert 1 <= k.group_size[0] <= k.resources.max_group_size <= dev.info.max_group_size
        assert "saxpy_f32" in repr(k)
