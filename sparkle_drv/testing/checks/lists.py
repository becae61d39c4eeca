"""Command lists: each command, the order of commands, repeated submission, and arguments that are
patched while earlier submissions are in flight.
"""

from __future__ import annotations

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import Busy, check, groups_for, kernel, raises, seeded


@check("lists")
def check_copy_moves_bytes(dev: sp.Device) -> None:
    with seeded() as rng, dev.buffer(1001) as a, dev.buffer(1001) as b:
        data = rng.integers(0, 256, 1001, np.uint8)
        a.write(data)
        commands = sp.Commands().copy(b, a).copy(a.view(3, 500), b.view(101, 500))
        dev.default_queue.submit(commands).wait()
        assert (b.read(np.uint8, 1001) == data).all()
        data[3:503] = data[101:601].copy()
        assert (a.read(np.uint8, 1001) == data).all()


@check("lists")
def check_copies_may_overlap(dev: sp.Device) -> None:
    data = np.arange(200, dtype=np.uint8)
    with dev.buffer(200) as a:
        for to, origin in ((5, 0), (0, 5)):
            a.write(data)
            want = data.copy()
            want[to : to + 190] = data[origin : origin + 190]
            commands = sp.Commands().copy(a.view(to, 190), a.view(origin, 190))
            dev.default_queue.submit(commands).wait()
            assert (a.read(np.uint8, 200) == want).all(), f"from {origin} to {to}"


@check("lists")
def check_copy_between_all_kinds_of_memory(dev: sp.Device) -> None:
    with seeded() as rng:
        data = rng.integers(0, 256, 333, np.uint8)
        for source in sp.Memory:
            for target in sp.Memory:
                with dev.buffer(333, source) as a, dev.buffer(333, target) as b:
                    a.write(data)
                    dev.default_queue.submit(sp.Commands().copy(b, a)).wait()
                    assert (b.read(np.uint8, 333) == data).all(), f"{source} to {target}"


@check("lists")
def check_fill_with_each_width(dev: sp.Device) -> None:
    for width, pattern in ((1, 0xAB), (2, 0xBEEF), (4, 0xDEADBEEF), (4, 0), (2, 1)):
        kind = {1: np.uint8, 2: np.uint16, 4: np.uint32}[width]
        with dev.buffer(256 + 12) as a:
            part = a.view(width, 256)  # the view's offset is aligned to the pattern's width only
            dev.default_queue.submit(sp.Commands().fill(part, pattern, width)).wait()
            found = a.read(np.uint8, 268)
            assert (found[width : width + 256].view(kind) == pattern).all(), f"{width} bytes"
            assert not found[:width].any(), "bytes before the view were filled"
            assert not found[width + 256 :].any(), "bytes behind the view were filled"


@check("lists")
def check_a_list_runs_in_order(dev: sp.Device) -> None:
    with (
        kernel(dev, "saxpy_f32") as k,
        dev.empty(500, np.float32) as x,
        dev.empty(500, np.float32) as y,
    ):
        one = int(np.float32(1).view(np.uint32))
        groups = groups_for(k, 500)
        commands = sp.Commands().fill(x, one)
        for _ in range(5):
            commands.dispatch(k, y, x, 1.0, 500, groups=groups).copy(x, y).barrier()
        fence = dev.default_queue.submit(commands)
        fence.wait()
        # each step adds x to y, then copies y to x, so both double
        assert (np.asarray(y) == 2**4).all()


@check("lists")
def check_an_overlapping_list_keeps_its_barriers(dev: sp.Device) -> None:
    with (
        kernel(dev, "vecadd_f32") as k,
        dev.array(np.ones(1000, np.float32)) as x,
        dev.empty(1000, np.float32) as y,
        dev.empty(1000, np.float32) as z,
    ):
        groups = groups_for(k, 1000)
        commands = sp.Commands(overlap=True)
        commands.dispatch(k, y, x, x, 1000, groups=groups).barrier()
        commands.dispatch(k, z, y, y, 1000, groups=groups)
        dev.default_queue.submit(commands).wait()
        assert (np.asarray(z) == 4).all()


@check("lists")
def check_an_empty_list_is_a_submission(dev: sp.Device) -> None:
    with dev.queue() as queue:
        first, second = queue.submit(sp.Commands()), queue.submit(sp.Commands().barrier())
        second.wait()
        assert first.done
        assert first.value < second.value


@check("lists")
def check_a_list_is_submitted_again(dev: sp.Device) -> None:
    with (
        kernel(dev, "saxpy_f32") as k,
        dev.array(np.ones(64, np.float32)) as x,
        dev.empty(64, np.float32) as y,
        dev.queue() as a,
        dev.queue() as b,
    ):
        commands = sp.Commands().dispatch(k, y, x, 1.0, 64, groups=1)
        fences = [a.submit(commands) for _ in range(8)]
        fences[-1].wait()
        b.submit(commands).wait()
        commands.dispatch(k, y, x, 10.0, 64, groups=1)  # appended after the list was submitted
        a.submit(commands).wait()
        assert (np.asarray(y) == 8 + 1 + 11).all()


@check("lists")
def check_waiting_for_another_queue(dev: sp.Device) -> None:
    with (
        Busy(dev) as busy,
        dev.queue() as first,
        dev.queue() as second,
        dev.buffer(64) as a,
        dev.buffer(64) as b,
    ):
        early = first.submit(busy.commands(0.05).fill(a, 7))
        late = second.submit(sp.Commands().wait(early).copy(b, a))
        late.wait()
        assert early.done
        assert (b.read(np.uint32, 16) == 7).all(), "it did not wait"


@check("lists")
def check_timestamps_in_a_list(dev: sp.Device) -> None:
    with Busy(dev) as busy:
        before, after = dev.timestamp(), dev.timestamp()
        assert (before.ns, after.ns) == (0, 0)
        commands = busy.commands(0.01, sp.Commands().timestamp(before)).timestamp(after)
        dev.default_queue.submit(commands).wait()
        assert 0 < before.ns < after.ns, f"{before.ns} ns, then {after.ns} ns"
        first = before.ns
        dev.default_queue.submit(commands).wait()
        assert before.ns > first, "the clock went back"
        before.close()
        after.close()


@check("patch")
def check_patch_leaves_earlier_submissions_alone(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as k, Busy(dev) as busy, dev.queue() as queue:
        outs = [dev.empty(100, np.float32) for _ in range(6)]
        commands = busy.commands(0.01)
        at = len(commands)
        commands.dispatch(k, outs[0], 0.0, 100, groups=1)
        fences = [queue.submit(commands)]
        for i, out in enumerate(outs[1:], 1):
            assert commands.patch(at, out, float(i), 100) is commands
            fences.append(queue.submit(commands))
        fences[-1].wait()
        for i, out in enumerate(outs):
            assert (np.asarray(out) == i).all(), f"submission {i} ran with other arguments"
            out.close()


@check("patch")
def check_patch_before_the_first_submission(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as k, dev.empty(10, np.float32) as y:
        commands = sp.Commands().barrier().dispatch(k, y, 1.0, 10, groups=1)
        commands.patch(1, y, 2.0, 10).patch(-1, y, 3.0, 5)
        dev.default_queue.submit(commands).wait()
        assert np.asarray(y).tolist() == [3.0] * 5 + [0.0] * 5


@check("patch")
def check_patch_refuses_and_keeps_what_was(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as k, dev.empty(10, np.float32) as y:
        commands = sp.Commands().barrier().dispatch(k, y, 1.0, 10, groups=1)
        with raises(ValueError, says="Barrier"):
            commands.patch(0, y, 2.0, 10)
        with raises(ValueError, says="2 commands"):
            commands.patch(2, y, 2.0, 10)
        with raises(TypeError, says="3 arguments"):
            commands.patch(1, y, 2.0)
        with raises(TypeError, says="argument a"):
            commands.patch(1, y, "two", 10)
        with raises(ValueError, says="44 bytes"):
            commands.patch(1, y, 2.0, 11)
        dev.default_queue.submit(commands).wait()
        assert (np.asarray(y) == 1).all()
