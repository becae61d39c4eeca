"""An expression waits until somebody reads it or writes to memory; no write changes its result.

When this fails, a write after an expression changes the expression's result.
"""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops.memory import staging

pytestmark = pytest.mark.devices("cpu", "egl:0", "emu:gfx1100")
HOST = np.arange(64, dtype=np.float32)


@pytest.fixture
def maps(monkeypatch):
    """The names of the kernels that operations launch."""
    seen = []
    launch = staging.Stage.launch

    def note(self, kernel, *args):
        seen.append(kernel.name)
        return launch(self, kernel, *args)

    monkeypatch.setattr(staging.Stage, "launch", note)
    return seen


def test_an_expression_is_one_launch_when_it_is_read(fresh, maps):
    x, y = fresh.array(HOST), fresh.array(HOST + 1)
    z = np.sin(x) + y * 2
    assert not maps
    assert "waits" in repr(z)
    assert z.explain().startswith(f"one map on {fresh.uri}: (sin(x0) + (x1 * s0))")
    np.testing.assert_allclose(z.numpy(), np.sin(HOST) + (HOST + 1) * 2, 1e-5, 1e-5)
    assert len(maps) == 1
    z.numpy()
    assert len(maps) == 1


def test_what_nobody_reads_is_not_computed(fresh, maps):
    x = fresh.array(HOST)
    z = x + 1
    z.close()
    del z
    x * 2
    fresh.array(HOST)
    assert not maps
    with pytest.raises(ValueError, match="closed"):
        x.close() or x + 1


def launch(device, x):
    kernel = device.kernel("saxpy_f32")
    device.default_queue.launch(kernel, x, x, 1.0, 64, groups=1)


def submitted(device, x):
    commands = sp.Commands().fill(x, 0)
    device.default_queue.submit(commands)  # after the first time, native code submits it
    z = x + 5
    device.default_queue.submit(commands)
    device.wait_idle()
    assert z.get(0) == 5


def prepared(device, x):
    kernel = device.kernel("saxpy_f32")
    go = device.default_queue.prepare(kernel, x, x, 1.0, 64, groups=1)
    go()
    before = x.get(1)
    z = x + 0
    go()
    assert (z.get(1), x.get(1)) == (before, 2 * before)


def by_another_queue(device, x):
    with device.queue() as queue:
        queue.write(x, HOST * 0).wait()


def through_a_view(device, x):
    device.default_queue.write(x.buffer.view(0, 128), HOST[:32] * 0)


def by_numpy(device, x):
    host = x.numpy()
    if device.info.unified:
        host[...] = 7


def in_a_pipeline(device, x):
    with device.pipeline(2) as pipe:
        pipe.submit(pipe.acquire(), sp.Commands().fill(x, 0)).wait()


def in_place(device, x):
    x += 1
    x[3:] = 0


def by_an_operation(device, x):
    sp.ops.map(device, "a * 0", x, out=x)
    sp.ops.gemm(device, x.reshape(8, 8), device.array(np.eye(8, dtype="f4")), x.reshape(8, 8))


def closed(device, x):
    x.close()


WAYS = (launch, submitted, prepared, by_another_queue, through_a_view, by_numpy, in_a_pipeline)
WAYS += (in_place, by_an_operation, closed)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_write_changes_an_expression(fresh, way):
    x = fresh.array(HOST)
    z = np.sqrt(x) * 2
    twice = z + x
    way(fresh, x)
    fresh.wait_idle()
    np.testing.assert_allclose(z.numpy(), np.sqrt(HOST) * 2, 1e-6)
    np.testing.assert_allclose(twice.numpy(), np.sqrt(HOST) * 2 + HOST, 1e-6)


def test_a_launch_takes_what_waits(fresh):
    """As an argument of a launch, a list and an operation it is computed first."""
    x, kernel = fresh.array(HOST), fresh.kernel("saxpy_f32")
    y, z, w = x * 2, x + 0, x + 0
    fresh.default_queue.launch(kernel, y, z, 1.0, 64, groups=1)
    np.testing.assert_array_equal(y.numpy(), HOST * 3)
    commands = sp.Commands().dispatch(kernel, w, y, 1.0, 64, groups=1)
    fresh.default_queue.submit(commands).wait()
    np.testing.assert_array_equal(w.numpy(), HOST * 4)
    made = sp.ops.reduce(fresh, x + 1)
    assert made.item() == HOST.sum() + 64


def test_memory_that_others_write_is_read_at_once(fresh):
    """An address, a view of numpy's or a wrapped array may be written by anybody at any time."""
    x = fresh.array(HOST)
    assert x.buffer.address
    z = x + 1
    assert "waits" not in repr(z)
    if fresh.info.unified:
        host = HOST.copy()
        wrapped = fresh.wrap(host).array("f4", 64)
        z = wrapped + 1
        host[...] = 0
        np.testing.assert_array_equal(z.numpy(), HOST + 1)


def test_threads_read_one_array(fresh, maps):
    x = fresh.array(HOST)
    z = x * 3 + 1
    found, start = [], threading.Barrier(4)

    def read():
        start.wait(10)
        found.append(np.array(z.numpy()))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 4
    assert all((f == HOST * 3 + 1).all() for f in found)
    assert len(maps) == 1


def test_a_failure_before_a_write_is_told_to_who_reads(fresh, monkeypatch):
    x = fresh.array(HOST)
    z = x + 1
    with monkeypatch.context() as patch:
        patch.setattr(type(fresh), "empty", lambda *_: 1 / 0)
        fresh.default_queue.write(x, HOST * 0).wait()
    with pytest.raises(ZeroDivisionError):
        z.numpy()
    assert (x + 1).get(0) == 1


def test_a_failure_keeps_no_variables_of_the_writer(fresh, monkeypatch):
    """CPython before 3.12.6 crashes when it collects a memoryview in such a cycle (gh-77894)."""
    x, out = fresh.array(HOST), np.empty_like(HOST)
    z, alive = x + 1, weakref.ref(out)
    with monkeypatch.context() as patch:
        patch.setattr(type(fresh), "empty", lambda *_: 1 / 0)
        fresh.default_queue.read(x, out).wait()
    del out
    assert alive() is None
    with pytest.raises(ZeroDivisionError):
        z.numpy()


def test_a_long_chain_ends(fresh):
    """Without a bound a loop would build an expression that no kernel takes."""
    x = fresh.array(HOST)
    for _ in range(200):
        x = x + 1
    np.testing.assert_array_equal(x.numpy(), HOST + 200)
