"""A device that closes, or a process that ends, while other threads use the device: they get the
right result or DeviceLost.

When this fails, a thread that uses a device crashes the process, hangs, or gets an error of cffi
when another thread closes the device or the main thread ends.
"""

import threading

import fakecuda
import forked
import pytest

import sparkle_drv as sp

CALLS = {
    "alloc": lambda dev: dev.buffer(1 << 16),
    "load": lambda dev: dev.kernel("fill_f32"),
    "open_queue": lambda dev: dev.queue(),
}


def overtaken(dev, method, before):
    """From now on another thread closes the device before or after the backend's method runs."""
    real = getattr(dev._backend, method)

    def close():
        thread = threading.Thread(target=dev.close)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()

    def run(*args):
        if before:
            close()
        result = real(*args)
        if not before:
            close()
        return result

    setattr(dev._backend, method, run)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("method", CALLS)
def test_what_a_call_opens_is_closed_if_the_device_closes_meanwhile(device, method, before):
    live = device.live_counts()
    with sp.open(device.uri) as dev:
        overtaken(dev, method, before)
        with pytest.raises(sp.DeviceLost, match="the device is closed"):
            CALLS[method](dev)
    del dev
    assert device.live_counts() == live


@pytest.mark.parametrize("before", [True, False])
def test_memory_that_is_mapped_outlives_the_device(device, before):
    with sp.open(device.uri) as dev:
        buffer = dev.buffer(1 << 16, sp.Memory.HOST)
        overtaken(dev, "map", before)
        try:
            view = buffer.map()
        except sp.DeviceLost:
            assert before
        else:
            view[:4] = b"mine"
            assert bytes(view[:5]) == b"mine\0"
            view.release()


RACE = """
import random, sys, threading
import numpy as np
import sparkle_drv as sp
import sparkle_drv.testing
uri, ones, ends = sys.argv[1], np.ones((48, 48), "f4"), set()

def launch(dev):
    with dev.queue() as queue, dev.buffer(4096) as buffer, dev.kernel("fill_f32") as kernel:
        queue.launch(kernel, buffer, 2.0, 1024, groups=-(-1024 // kernel.group_size[0])).wait()
        assert (buffer.read("f4", 1024) == 2).all()

def product(dev):
    assert (np.asarray(sp.ops.gemm(dev, ones, ones)) == 48).all()

def view(dev):
    with dev.buffer(64, sp.Memory.HOST).map() as memory:
        assert not any(memory)

ACTS = [launch, product, view, lambda dev: dev.array(ones), lambda dev: dev.kernel("saxpy_f32"),
        lambda dev: dev.queue().close(), lambda dev: dev.live_counts(), lambda dev: dev.pipeline()]

def work(dev, chance):
    while True:
        try:
            chance.choice(ACTS)(dev)
        except Exception as error:
            ends.add(error if type(error) is not sp.DeviceLost else sp.DeviceLost)
            return

sys.setswitchinterval(1e-5)
for turn in range(8):
    dev = sp.open(uri)
    threads = [threading.Thread(target=work, args=(dev, random.Random(turn * 4 + n)))
               for n in range(3)]
    for thread in threads:
        thread.start()
    threads[0].join(0.002 * turn)
    dev.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a thread hangs"
print(ends)
"""


def test_threads_get_the_result_or_device_lost(device):
    done = forked.run(RACE, device.uri, env=fakecuda.environment(device), timeout=100)
    assert (done.stdout, done.returncode) == ("{<class 'sparkle_drv.errors.DeviceLost'>}\n", 0), (
        done.stderr[-2000:]
    )


EXIT = """
import sys, threading
import numpy as np
import sparkle_drv as sp
import sparkle_drv.testing
dev, data = sp.open(sys.argv[1]), np.ones(1 << 22, "f4")
arrays, begun = [dev.empty(data.size, "f4") for _ in range(3)], threading.Semaphore(0)

def copy(array):
    queue = dev.queue()
    while True:
        queue.write(array.buffer, data).wait()
        begun.release()

def compute():
    while True:
        sp.ops.gemm(dev, data[:4096].reshape(64, 64), data[:4096].reshape(64, 64))
        begun.release()

threading.excepthook = lambda *_: None  # DeviceLost
for target, args in [*((copy, (array,)) for array in arrays), (compute, ())]:
    threading.Thread(target=target, args=args, daemon=True).start()
for _ in range(4):
    begun.acquire()
"""


def test_the_process_ends_beside_daemon_threads(device):
    done = forked.run(EXIT, device.uri, env=fakecuda.environment(device), timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
