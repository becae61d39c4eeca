"""A device or queue that closes, or a process that ends, while other threads use the device: they
get the right result or DeviceLost.

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


QUEUE = """
import random, sys, threading, time
import numpy as np
import sparkle_drv as sp
import sparkle_drv.testing
dev, n, box, ends = sp.open(sys.argv[1]), 256, [], []
fill = dev.kernel("fill_f32")
groups = -(-n // fill.group_size[0])

def waits(queue, fence, prepared, own, memory):
    own.submit(sp.Commands().wait(fence).dispatch(fill, memory, 1.0, n, groups=groups)).wait(20)

ACTS = [
    lambda queue, *_: [queue.reached for _ in range(50)],
    lambda queue, *_: (queue.submitted, queue.describe()),
    lambda queue, fence, *_: fence.wait(20),
    lambda queue, fence, *_: fence.done,
    lambda queue, fence, prepared, *_: prepared(),
    lambda queue, *_: queue.launch(fill, dev.buffer(4 * n), 1.0, n, groups=groups),
    lambda queue, *_: queue.read(dev.buffer(4 * n), np.empty(n, "f4")),
    lambda queue, *_: queue.write(dev.buffer(4 * n), np.empty(n, "f4")),
    lambda *_: dev.buffer(64).close(),
    lambda *_: dev.live_counts(),
    waits, waits,
]

def use(chance):
    memory = dev.buffer(4 * n)
    with dev.queue() as own:
        while going:
            try:
                chance.choice(ACTS)(*box[0], own, memory)
            except sp.DeviceLost as error:
                assert "closed" in str(error)
            except BaseException as error:
                ends.append(error)

sys.setswitchinterval(1e-5)
out, going, started_s = dev.buffer(4 * n), True, time.monotonic()
threads = [threading.Thread(target=use, args=(random.Random(seed),)) for seed in range(3)]
for turn in range(1000):
    queue = dev.queue()
    fence = queue.launch(fill, out, 2.0, n, groups=groups)
    box[:] = [(queue, fence, queue.prepare(fill, out, 2.0, n, groups=groups))]
    if turn == 0:
        for thread in threads:
            thread.start()
    if turn % 2:
        time.sleep(0.001)
    queue.close()
    if time.monotonic() - started_s > 2:
        break
going = False
for thread in threads:
    thread.join(30)
    assert not thread.is_alive(), "a thread hangs"
print(ends)
"""


def test_threads_that_use_a_queue_while_it_closes_get_the_result_or_device_lost(device):
    done = forked.run(QUEUE, device.uri, env=fakecuda.environment(device), timeout=100)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr[-2000:]


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
