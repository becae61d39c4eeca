"""egl in a forked child: everything inherited is lost at once, EGL itself cannot be used again, and
the parent goes on. A driver's threads stay behind: without the guard the child would hang.
"""

import contextlib
import gc

import numpy as np
import pytest
from test_fork import in_child, lost

import sparkle_drv as sp


@pytest.fixture
def made(egl):
    with egl.buffer(400) as buffer, egl.kernel("fill_f32") as kernel, egl.queue() as queue:
        things = [egl, buffer, kernel, queue]
        yield things
    things.clear()  # pytest keeps the list until the device was checked


def test_everything_is_lost_in_the_child(made):
    dev, buffer, kernel, queue = made
    commands = sp.Commands().dispatch(kernel, buffer, 5.0, 100)
    go = queue.prepare(kernel, buffer, 1.0, 100)
    fence = queue.submit(commands).wait()
    out = np.zeros(100, np.float32)
    calls = [
        lambda: queue.launch(kernel, buffer, 1.0, 100),
        go,
        lambda: queue.prepare(kernel, buffer, 1.0, 100),
        lambda: queue.submit(commands),
        lambda: queue.write(buffer, out),
        lambda: queue.read(buffer, out),
        lambda: buffer.read(np.float32, 100),
        fence.wait,
        lambda: dev.buffer(4),
        lambda: dev.kernel("noop"),
        lambda: dev.queue(),
        lambda: dev.wait_idle(),
    ]
    assert in_child(lost(*calls)) == 0
    queue.fence(go()).wait()
    assert (buffer.read(np.float32, 100) == 1).all()


def test_egl_cannot_be_opened_in_the_child(made):
    def work():
        with pytest.raises(sp.DeviceNotFound, match="forked after EGL was initialised"):
            sp.open("egl:0")
        (found,) = (found for found in sp.discover() if found.backend == "egl")
        assert "forked" in found.reason
        assert "apt-get" not in found.advice
        with sp.open("cpu") as cpu:  # everything else can
            cpu.buffer(4).close()

    assert in_child(work) == 0


def test_a_child_lets_go_of_what_it_inherited(made):
    dev, buffer, kernel, queue = made

    def work():
        for one in (queue, buffer, kernel, dev):
            with contextlib.suppress(sp.DeviceLost):
                one.close()
        gc.collect()

    busy = queue.submit(sp.Commands().fill(buffer, 0).dispatch(kernel, buffer, 2.0, 100))
    assert in_child(work) == 0
    busy.wait()
    queue.launch(kernel, buffer, 3.0, 100).wait()
    assert (buffer.read(np.float32, 100) == 3).all()
