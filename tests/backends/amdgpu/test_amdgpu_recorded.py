"""Submissions that come again are sent without being encoded again. The counters say what was sent.

When this fails, a repeated launch runs with the arguments of the one before it.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from emulated_cards import own_card
from where import CODE_OBJECTS

import sparkle_drv as sp
from sparkle_drv.backends.amdgpu import info

CHIPS = ["gfx1036", "gfx1100"]
N, GROUP = 64, 256


@pytest.fixture(params=CHIPS)
def card(request):
    with own_card(request.param) as both:
        yield both


@pytest.fixture
def dev(card):
    return card[1]


@pytest.fixture
def adds(dev):
    """(y, list): each submission adds 1 to every element of y."""
    k, x, y = dev.kernel("saxpy_f32"), dev.array(np.ones(N, np.float32)), dev.empty(N, np.float32)
    return y, sp.Commands().dispatch(k, y, x, 1.0, N, groups=1)


def test_a_submission_is_two_ioctls(dev, adds):
    """How often memory was moved for want of room, since L2 stays as it is; CS."""
    y, c = adds
    dev.default_queue.submit(c).wait()
    before = dev._backend.counters()
    for _ in range(20):
        dev.default_queue.submit(c)
    after = dev._backend.counters()
    assert after["jobs"] - before["jobs"] == after["submissions"] - before["submissions"] == 20
    assert after["ioctls"] - before["ioctls"] == 40
    assert after["ib_ndw"] - before["ib_ndw"] == 20 * before["ib_ndw"]
    dev.default_queue.fence(21).wait()
    assert (np.asarray(y) == 21).all()


@pytest.mark.parametrize("chip", CHIPS)
def test_many_on_their_way(chip):
    """More than fit, each of them late, of a list and a prepared launch in turn."""
    with own_card(chip, delay_s=0.0005) as (_, dev):
        k = dev.kernel("saxpy_f32")
        x, y = dev.array(np.ones(N, np.float32)), dev.empty(N, np.float32)
        q = dev.queue()
        go = q.prepare(k, y, x, 2.0, N, groups=1)
        c = sp.Commands().dispatch(k, y, x, 1.0, N, groups=1).dispatch(k, y, x, 0.5, N, groups=1)
        for _ in range(50):
            q.submit(c)
            value = go()
        q.fence(value).wait()
        assert (np.asarray(y) == 50 * 3.5).all()


@pytest.mark.parametrize("chip", CHIPS)
def test_a_patch_between_changes_nothing_before_it(chip):
    with own_card(chip, delay_s=0.0005) as (_, dev):
        k = dev.kernel("saxpy_f32")
        x, y = dev.array(np.ones(N, np.float32)), dev.empty(N, np.float32)
        c = sp.Commands().dispatch(k, y, x, 1.0, N, groups=1)
        for i in range(60):  # more arguments than are kept
            dev.default_queue.submit(c)
            dev.default_queue.submit(c.patch(0, y, x, float(i), N)).wait()
            c.patch(0, y, x, 1.0, N)
        assert (np.asarray(y) == 60 + sum(range(60))).all()


def test_a_buffer_closed_between(dev, adds):
    y, c = adds
    k = dev.kernel("fill_f32")
    gone = dev.empty(N, np.float32)
    other = sp.Commands().dispatch(k, gone, 1.0, N, groups=1)
    for commands in (c, other, c, other):
        fence = dev.default_queue.submit(commands)
    fence.wait()
    gone.close()
    with pytest.raises(ValueError, match="closed"):
        dev.default_queue.submit(other)
    dev.default_queue.submit(c).wait()
    assert (np.asarray(y) == 3).all()


def test_a_kernel_closed_and_another_in_its_place(dev):
    """Whichever address the next kernel has, it is never taken for the one before."""
    with dev.array(np.full(N, 2, np.float32)) as x, dev.empty(N, np.float32) as y:
        for _ in range(8):
            for name, wanted in (("abs_f32", 2.0), ("neg_f32", -2.0)):
                with dev.kernel(name) as k:
                    c = sp.Commands().dispatch(k, y, x, N, groups=1)
                    for _ in range(2):
                        dev.default_queue.submit(c).wait()
                        assert (np.asarray(y) == wanted).all()


@pytest.mark.parametrize("recovery", ["ring", "soft", "full"])
def test_a_reset_between(recovery):
    """The context is a new one then; what is kept goes on in it."""
    with own_card("gfx1100", job_limit_s=0.1) as (machine, dev):
        k = dev.kernel("saxpy_f32")
        x, y = dev.array(np.ones(N, np.float32)), dev.empty(N, np.float32)
        c = sp.Commands().dispatch(k, y, x, 1.0, N, groups=1)
        q = dev.default_queue
        q.submit(c)
        q.submit(c).wait()
        machine.hang_next_job(recovery=recovery)
        with pytest.raises(sp.SparkleError):
            q.submit(c).wait(10)
        before = np.asarray(y)[0]
        q.submit(c)
        q.submit(c).wait()
        assert (np.asarray(y) == before + 2).all()


def test_a_kernel_with_scratch_in_between(dev, adds):
    y, c = adds
    path = CODE_OBJECTS / f"features.v5.{dev.info.isa}.hsaco"
    out, lanes = dev.empty(192, np.uint32), np.tile(np.arange(64), 3)
    k = dev.kernel(image=path, entry="stack", args="u32* i32", group_size=64)
    scratch = sp.Commands().dispatch(k, out, 7, groups=3)
    for _ in range(3):
        dev.default_queue.submit(c)
        dev.default_queue.submit(scratch).wait()
        assert (np.asarray(out) == 7 * lanes + 49).all()
    assert (np.asarray(y) == 3).all()


def test_a_list_that_waits_waits_each_time(dev, adds):
    y, _ = adds
    a, b, z = dev.queue(), dev.queue(), dev.empty(N, np.float32)
    busy, out = dev.kernel("busy_u32"), dev.buffer(4)
    fill = dev.kernel("fill_f32")
    for i in range(1, 4):
        slow = sp.Commands().dispatch(busy, out, 20_000, groups=1)
        fence = a.submit(slow.dispatch(fill, y, float(i), N, groups=1))
        b.submit(sp.Commands().wait(fence).copy(z, y)).wait()
        assert (np.asarray(z) == i).all()


def test_copies_of_the_other_engine_in_between(dev):
    n = 1 << 17  # bytes enough for the ring for copies
    x, y = dev.array(np.zeros(n, np.float32)), dev.empty(n, np.float32)
    k = dev.kernel("saxpy_f32")
    one = dev.array(np.ones(n, np.float32))
    add = sp.Commands().dispatch(k, x, one, 1.0, n, groups=-(-n // 256))
    move = sp.Commands().copy(y, x)
    q, before = dev.default_queue, dev._backend.counters()["dma_jobs"]
    for i in range(1, 5):
        q.submit(add)
        q.submit(move).wait()
        assert (np.asarray(y) == i).all()
    assert dev._backend.counters()["dma_jobs"] > before


def test_a_grid_whose_jobs_have_become_shorter_is_cut(monkeypatch):
    monkeypatch.setattr(info, "JOB_THREADS", 16 * GROUP)
    monkeypatch.setattr(info, "JOB_NS", 1)  # no job is short enough
    monkeypatch.setattr(info, "MEASURED_THREADS", 8 * GROUP)
    with own_card("gfx1100") as (_, dev):
        n = 16 * GROUP
        k, x, y = dev.kernel("saxpy_f32"), dev.array(np.ones(n, np.float32)), dev.empty(n, "f4")
        four, q = sp.Commands().dispatch(k, y, x, 1.0, n, groups=4), dev.default_queue

        def jobs_of(f):
            before = dev._backend.counters()["jobs"]
            f().wait()
            return dev._backend.counters()["jobs"] - before

        assert [jobs_of(lambda: q.submit(four)) for _ in range(2)] == [1, 1]
        assert jobs_of(lambda: q.launch(k, y, x, 1.0, n, groups=16)) == 1  # it is measured
        assert jobs_of(lambda: q.submit(four)) == 4
        assert (np.asarray(y)[: 4 * GROUP] == 4).all()


def test_a_list_for_two_queues_in_turn(dev, adds):
    y, c = adds
    queues = [dev.queue(), dev.queue(), dev.queue(timing=True)]
    for _ in range(5):
        for q in queues:
            q.submit(c).wait()
    assert (np.asarray(y) == 15).all()
    assert queues[2].fence(5).time_ns > 0


def test_two_threads(dev, adds):
    y, c = adds
    q, go_on = dev.queue(), threading.Barrier(2)

    def submit():
        go_on.wait()
        for _ in range(100):
            q.submit(c)

    threads = [threading.Thread(target=submit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    q.fence(200).wait()
    assert q.submitted == 200
    assert (np.asarray(y) == 200).all()
