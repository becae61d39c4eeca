"""Views and arrays over views: closing one ends it for good, and never frees memory in use.

When this fails, closing one view frees memory that another view still uses.
"""

import gc

import numpy as np
import pytest

import sparkle_drv as sp


@pytest.fixture
def last_view(device):
    """A view whose parent nobody holds: closing it lets the memory go."""
    view = device.buffer(4096).view(0, 400)
    yield view
    view.close()


def test_a_list_with_a_closed_view(device, last_view):
    commands = sp.Commands().fill(last_view, 1)
    device.default_queue.submit(commands).wait()
    last_view.close()
    gc.collect()
    with pytest.raises(ValueError, match="closed"):
        device.default_queue.submit(commands)


def test_a_dispatch_with_a_closed_view(device, last_view):
    with device.kernel("fill_f32") as k:
        commands = sp.Commands().dispatch(k, last_view, 1.0, 100, groups=1)
        device.default_queue.submit(commands).wait()
        last_view.close()
        with pytest.raises(ValueError, match="closed"):
            device.default_queue.submit(commands)


def test_a_prepared_launch_with_a_closed_view(device, last_view):
    with device.kernel("fill_f32") as k:
        go = device.default_queue.prepare(k, last_view, 1.0, 100, groups=1)
        device.default_queue.fence(go()).wait()
        last_view.close()
        with pytest.raises(ValueError, match="closed"):
            go()


def test_a_closed_array_over_a_view(device, last_view):
    with device.kernel("fill_f32") as k:
        a = last_view.array(np.float32, 100)
        b = a.reshape(10, 10)
        a.close()
        for call in (
            lambda: device.default_queue.launch(k, a, 1.0, 100, groups=1),
            lambda: sp.Commands().dispatch(k, a, 1.0, 100, groups=1),
            lambda: sp.Commands().fill(a, 0),
            lambda: a.numpy(),
            lambda: a.reshape(10, 10),
        ):
            with pytest.raises(ValueError, match="closed"):
                call()
        device.default_queue.launch(k, b, 2.0, 100, groups=1).wait()
        assert (np.asarray(b) == 2).all()


def test_a_view_keeps_the_memory_without_its_parent(device, last_view):
    gc.collect()
    others = [device.buffer(4096) for _ in range(8)]
    last_view.write(np.full(400, 9, np.uint8))
    for other in others:
        assert not other.read(np.uint8, 4096).any()
        other.close()
    assert (last_view.read(np.uint8, 400) == 9).all()


def test_a_view_closed_in_flight(device, last_view):
    with device.kernel("busy_u32") as busy, device.queue() as queue, device.buffer(400) as out:
        steps = 100_000 if device.info.emulated else 10_000_000  # at work when it goes
        commands = sp.Commands().dispatch(busy, last_view, steps, groups=1)
        fence = queue.submit(commands.fill(last_view, 3).copy(out, last_view))
        last_view.close()
        del commands
        gc.collect()
        others = [device.buffer(4096) for _ in range(8)]
        fence.wait()
        assert (out.read(np.uint32, 100) == 3).all()
        for other in others:
            assert not other.read(np.uint8, 4096).any()
            other.close()
