"""Many launches and buffer cycles leave neither memory nor descriptors behind.

When this fails, a long-running process grows until it is killed.
"""

import gc
import resource

import numpy as np
import pytest
from census import census, none_left

import sparkle_drv as sp

pytestmark = pytest.mark.unmeasured  # other tests cover all of its lines


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def settled(work, rounds, most_nbytes):
    """`work(i)` many times: after a warm-up the process grows by `most_nbytes` at most.

    Looked at up to three times: allocators grow by chance, as threads come and go, a leak always.
    """
    for i in range(rounds // 4):
        work(i)
    gc.collect()
    there = census()
    grown = []
    while len(grown) < 3 and (not grown or grown[-1] > most_nbytes):
        gc.collect()
        before = resident()
        for i in range(rounds):
            work(i)
        gc.collect()
        grown.append(resident() - before)
    assert grown[-1] <= most_nbytes, f"grew by {grown} bytes in {rounds} rounds each"
    assert none_left(there)


def test_thousands_of_launches(device):
    with device.kernel("fill_f32") as k, device.buffer(4096) as y, device.queue() as queue:
        small, large = (1, 16), (5, 1024)

        def work(i):
            groups, n = large if i % 40 == 0 else small
            fence = queue.launch(k, y, float(i), n, groups=groups)
            if i % 50 == 0:
                fence.wait()

        settled(work, 5000, 1 << 19)
        queue.fence(queue.submitted).wait()


def test_hundreds_of_buffers(device):
    def work(i):
        with device.buffer(1 << 16, list(sp.Memory)[i % 3]) as b:
            b.view(0, 16).write(np.ones(16, np.uint8))

    before = device.live_counts()
    settled(work, 500, 2 << 20)
    assert device.live_counts() == before


def test_hundreds_of_lists_and_prepared_launches(device):
    with device.kernel("fill_f32") as k, device.queue() as queue:

        def work(i):
            with device.empty(256, np.float32) as y:
                commands = sp.Commands().fill(y, i).dispatch(k, y, 1.0, 256, groups=1)
                queue.submit(commands)
                commands.patch(1, y, 2.0, 256)
                queue.submit(commands)
                go = queue.prepare(k, y, 3.0, 256, groups=1)
                queue.fence(go()).wait()

        settled(work, 500, 2 << 20)


def test_queues_and_kernels(device):
    def work(i):
        with device.queue(timing=i % 2 == 0) as queue, device.kernel("noop") as k:
            queue.submit(sp.Commands().dispatch(k, groups=3)).wait()

    settled(work, 150, 4 << 20)


def test_devices(device):
    def work(i):
        with sp.open(device.uri) as dev:
            dev.array(np.arange(1000)).close()

    settled(work, 40, 4 << 20)


def test_failures_leave_nothing_either(device):
    with device.kernel("fill_f32") as k, device.buffer(64) as y:

        def work(i):
            with pytest.raises(ValueError, match="bytes"):
                device.default_queue.launch(k, y, 1.0, 17, groups=1)
            with pytest.raises(TypeError):
                device.default_queue.launch(k, y, None, 17, groups=1)
            with pytest.raises(sp.ImageError):
                device.kernel(image=b"x" * 1000, entry="f", args="")
            with pytest.raises(sp.OutOfDeviceMemory):
                device.buffer(1 << 60)

        settled(work, 300, 2 << 20)


def test_host_arrays_as_arguments(cpu):
    with cpu.kernel("copy_f32") as k:

        def work(i):
            x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
            cpu.default_queue.launch(k, y, x, 1000, groups=4).wait()

        settled(work, 1000, 2 << 20)
