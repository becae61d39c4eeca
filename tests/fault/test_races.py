"""Closing against launching, and failures that many submissions share.

When this fails, closing a device while another thread launches crashes the process.
"""

import ast
import threading

import fakecuda
import forked
import numpy as np
import pytest

import sparkle_drv as sp

CLOSERS = """
import random, sys, threading, time
import sparkle_drv as sp
import sparkle_drv.testing
sys.setswitchinterval(1e-6)
dev = sp.open(sys.argv[1])
saxpy, n = dev.kernel("saxpy_f32"), 1 << 12
box = [dev.buffer(4 * n)]
began = time.monotonic()
counts = {"ok": 0, "refused": 0, "closed": 0}
pause_s = 0.0  # of the thread that closes: as long as makes half of the launches come too late

def goes_on():  # for a while, and until it shows something, however slow the machine is
    took_s = time.monotonic() - began
    return took_s < 0.5 or (took_s < 80 and min(counts["ok"], counts["closed"]) <= 10)

def launch():
    global pause_s
    queue, own = dev.queue(), dev.buffer(4 * n)  # what several launch with is only read
    while goes_on():
        try:
            b = box[0]
            queue.launch(saxpy, own, b, 0.0, n, groups=n // 256).wait()
            queue.prepare(saxpy, own, b, 0.0, n, groups=n // 256)()
            queue.submit(sp.Commands().copy(own, b)).wait()
            counts["ok"] += 1
            pause_s /= 2
        except ValueError as error:
            assert "closed" in str(error), error
            counts["refused"] += 1
            pause_s = min(2 * pause_s + 1e-5, 0.1)
    queue.close()
    own.close()

def close():
    while goes_on():
        old, box[0] = box[0], dev.buffer(4 * n)
        old.close()
        counts["closed"] += 1
        time.sleep(random.random() * pause_s)

threads = [threading.Thread(target=t) for t in (launch, launch, close)]
for t in threads: t.start()
for t in threads: t.join()
dev.wait_idle()
box[0].close()
counts.update(left=dev.live_counts()["buffers"])
print(counts)
"""


def test_a_buffer_closed_by_another_thread_is_refused_or_in_time(device):
    done = forked.run(CLOSERS, device.uri, env=fakecuda.environment(device), timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = ast.literal_eval(done.stdout)
    assert counts["ok"] > 10
    assert counts["closed"] > 10
    assert counts["left"] == 0


def test_memory_that_another_device_reads_outlives_its_close(cpu):
    nbytes = 1 << 24
    with sp.open("cpu") as peer:
        busy, out = cpu.kernel("busy_u32"), cpu.buffer(4)
        queue, dst = cpu.queue(), cpu.buffer(nbytes)
        src = peer.buffer(nbytes)
        src.write(np.full(nbytes, 7, np.uint8))
        queue.submit(sp.Commands().dispatch(busy, out, 200_000_000, groups=1))
        fence = queue.copy_peer(dst, src)
        src.close()
        assert peer.live_counts()["retired"] == 1
        fence.wait()
        assert (dst.read(np.uint8, nbytes) == 7).all()
        assert peer.live_counts()["retired"] == 0
    for thing in (queue, dst, out, busy):
        thing.close()


def failing(cpu):
    """A list that fails when it runs: the program of its map is nonsense."""
    y, x = cpu.buffer(64), cpu.buffer(64)
    k = cpu.kernel("map_f32")
    words = cpu.array(np.array([9999], np.uint32))
    nothing = [None] * 7
    args = (y, x, *nothing, words, None, 1, 0, 1)
    return sp.Commands().dispatch(k, *args), (y, x, k, words)


def test_every_failure_is_kept(cpu):
    commands, things = failing(cpu)
    queue = cpu.queue()
    good = sp.Commands().fill(things[0], 1)
    fences = [queue.submit(good if i % 3 == 0 else commands) for i in range(60)]
    for i, fence in enumerate(fences):
        if i % 3 == 0:
            fence.wait()
        else:
            with pytest.raises(sp.KernelFault):
                fence.wait()
    for thing in (queue, *things):
        thing.close()


def test_a_pipeline_goes_on_after_a_failure_and_closes(cpu):
    commands, things = failing(cpu)
    pipe = cpu.pipeline(depth=2)
    pipe.submit(pipe.acquire(), commands)
    pipe.submit(pipe.acquire(), sp.Commands().fill(things[0], 1))
    with pytest.raises(sp.KernelFault):
        pipe.acquire()
    pipe.submit(pipe.acquire(), commands)
    with pytest.raises(sp.KernelFault):
        pipe.close()
    assert pipe.closed
    for thing in things:
        thing.close()


def test_a_failure_in_a_pipeline_is_told_once(cpu):
    commands, things = failing(cpu)
    with cpu.pipeline(depth=2) as pipe:
        bad, good = pipe.acquire(), pipe.acquire()
        pipe.submit(bad, commands)
        pipe.submit(good, sp.Commands())
        with pytest.raises(sp.KernelFault):
            pipe.drain()
        pipe.drain()
        assert pipe.acquire() is bad
        pipe.submit(bad, commands)
        assert pipe.acquire() is good
        with pytest.raises(sp.KernelFault):
            pipe.acquire()
        pipe.drain()
    for thing in things:
        thing.close()


def test_a_slot_that_does_not_close_leaves_nothing_else_open(cpu):
    class Stubborn:
        def __init__(self, dev):
            self.buffer = dev.buffer(64)

        def close(self):
            self.buffer.close()
            raise RuntimeError("no")

    pipe = cpu.pipeline(2, Stubborn)
    with pytest.raises(RuntimeError, match="no"):
        pipe.close()
    assert pipe.queue.closed
    assert [slot.buffer.closed for slot in pipe.slots] == [True, True]
    pipe.close()


def test_a_pipeline_whose_device_was_closed(fresh):
    pipe = fresh.pipeline(2, lambda: fresh.buffer(64))
    slot = pipe.acquire()
    pipe.submit(slot, sp.Commands().fill(slot, 1))
    fresh.close()
    for call in (pipe.acquire, lambda: pipe.submit(slot, sp.Commands())):
        with pytest.raises(sp.DeviceLost, match="the device is closed"):
            call()
    pipe.drain()
    pipe.close()
    assert pipe.closed


def test_the_error_of_the_body_is_the_one_told(cpu):
    commands, things = failing(cpu)

    def body():
        with cpu.pipeline(depth=1) as pipe:
            pipe.submit(pipe.acquire(), commands)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    for thing in things:
        thing.close()


def test_one_default_queue_however_many_ask():
    for _ in range(20):
        with sp.open("cpu") as dev:
            seen, go = [], threading.Barrier(4)

            def ask(dev=dev, seen=seen, go=go):
                go.wait()
                seen.append(dev.default_queue)

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert len(set(map(id, seen))) == 1
