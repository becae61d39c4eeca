"""Expressions and other queues: a launched expression still reads while another queue writes.

When this fails, a write on a queue of its own changes an expression that was made before it, or a
queue reads a result before it is computed.
"""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import sparkle_drv as sp

pytestmark = pytest.mark.devices("cpu", "egl:0", "emu:gfx1100")
HOST = np.arange(64, dtype=np.float32)
STEPS = {"cpu": 5_000_000, "egl": 1_000_000, "emu": 5_000}
"""Steps of busy_u32 that keep a device busy for some milliseconds."""


@pytest.fixture
def busy(fresh):
    """Keeps the default queue busy, so that an expression launched next begins late."""
    kernel, result = fresh.kernel("busy_u32"), fresh.buffer(8)
    steps = STEPS[fresh.uri.partition(":")[0]]
    return lambda: fresh.default_queue.launch(kernel, result, steps, groups=2)


def close_another(device, z):
    device.array(HOST).close()


def write_another(device, z):
    device.default_queue.write(device.buffer(4), bytes(4))


def change_another(device, z):
    other = device.array(HOST)
    other += 1


def ask_for_the_fence(device, z):
    assert z.fence is not None


def take_as_an_operand(device, z):
    sp.ops.reduce(device, z)


STARTS = (close_another, write_another, change_another, ask_for_the_fence, take_as_an_operand)


def copied(queue, x):
    queue.write(x, HOST * 0)


def filled(queue, x):
    queue.submit(sp.Commands().fill(x, 0))


def launched(queue, x):
    kernel = queue.device.kernel("fill_f32")
    queue.launch(kernel, x, 0.0, 64, groups=-(-64 // kernel.group_size[0]))


def prepared(queue, x):
    kernel = queue.device.kernel("fill_f32")
    go = queue.prepare(kernel, x, 0.0, 64, groups=-(-64 // kernel.group_size[0]))
    go()
    go()


WRITES = (copied, filled, launched, prepared)


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("start", STARTS, ids=lambda f: f.__name__)
def test_another_queue_overtakes_no_expression(fresh, busy, start, write):
    x, queue = fresh.array(HOST), fresh.queue()
    busy()
    z = x - 1
    start(fresh, z)
    write(queue, x)
    np.testing.assert_array_equal(z.numpy(), HOST - 1)
    fresh.wait_idle()
    assert not x.numpy().any()


def test_a_queue_that_opens_later_overtakes_nothing(fresh, busy):
    x = fresh.array(HOST)
    busy()
    z = x - 1
    assert z.fence is not None
    with fresh.queue() as queue:
        queue.write(x, HOST * 0)
        np.testing.assert_array_equal(z.numpy(), HOST - 1)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x[::2],
        lambda x: x.reshape(8, 8).T,
        lambda x: x.sum(),
        lambda x: x.max(),
        lambda x: x.reshape(8, 8) @ x.reshape(8, 8),
        lambda x: x.astype("i4"),
    ],
    ids=["slice", "transpose", "sum", "max", "product", "conversion"],
)
def test_what_operators_compute_at_once_is_not_overtaken(fresh, busy, compute):
    x, queue = fresh.array(HOST), fresh.queue()
    busy()
    z = compute(x)
    queue.write(x, HOST * 0)
    np.testing.assert_array_equal(z.numpy(), compute(HOST))


def test_another_queue_reads_a_result_after_it_is_computed(fresh, busy):
    x, queue, out = fresh.array(HOST), fresh.queue(), np.empty_like(HOST)
    target = fresh.array(HOST)
    busy()
    z = x - 1
    queue.read(z, out).wait()
    np.testing.assert_array_equal(out, HOST - 1)
    busy()
    z = x + 1
    queue.submit(sp.Commands().copy(target, z)).wait()
    np.testing.assert_array_equal(target.numpy(), HOST + 1)


def test_work_that_was_prepared_before_is_ordered_each_time(fresh, busy):
    """Prepared work sends an epoch that it has, not the device's."""
    x, queue = fresh.array(HOST), fresh.queue()
    kernel, commands = fresh.kernel("fill_f32"), sp.Commands().fill(x, 0)
    groups = -(-64 // kernel.group_size[0])
    go = queue.prepare(kernel, x, 7.0, 64, groups=groups)
    for again in (go, lambda: queue.submit(commands)):
        again()
        for _ in range(3):
            fresh.wait_idle()
            fresh.default_queue.write(x, HOST).wait()
            busy()
            z = x + 1
            assert z.fence is not None
            again()
            np.testing.assert_array_equal(z.numpy(), HOST + 1)


def test_a_child_does_not_wait_for_a_lock_of_the_parent(fresh):
    z, taken, done = fresh.array(HOST) + 1, threading.Event(), threading.Event()

    def hold():
        with fresh._pending.waiting.lock:
            taken.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(10)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            z.numpy()
        except sp.DeviceLost:
            status = 0
        except BaseException:
            status = 2
        os._exit(status)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        done.set()
        thread.join(10)


def test_a_close_in_a_child_does_no_harm(fresh):
    x = fresh.array(HOST)
    z = x + 1
    pid = os.fork()
    if not pid:
        status = 1
        try:
            x.close()
            z.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    np.testing.assert_array_equal(z.numpy(), HOST + 1)
