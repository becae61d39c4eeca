"""Queues, pool and timelines under many threads: small submissions, random waits, closes in
between. Every value must come true, nothing may hang or be lost.

When this fails, many threads on one device lose work or hang.
"""

import random
import threading
import time

import numpy as np
import pytest

import sparkle_drv as sp

THREADS = 6


def together(work, seconds=60):
    """Runs work(rng, thread) in threads of its own; the first error is raised here."""
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    errors = []

    def run(i):
        try:
            work(random.Random(seed + i), i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]


@pytest.fixture(params=["1", "2", "7"])
def busy_device(request, monkeypatch):
    monkeypatch.setenv("SPARKLE_THREADS", request.param)
    with sp.open("cpu") as dev:
        yield dev


def test_submissions_and_waits(busy_device):
    dev = busy_device
    with dev.kernel("fill_i32") as k, dev.kernel("vecadd_i32") as add:
        queues = [dev.queue(timing=i == 0) for i in range(3)]

        def work(rng, thread):
            with dev.empty(5000, np.int32) as x, dev.empty(5000, np.int32) as y:
                for step in range(120):
                    queue = rng.choice(queues)
                    n = rng.choice((1, 100, 5000))
                    value = thread * 1000 + step
                    way = rng.randrange(3)
                    if way == 0:
                        fence = queue.launch(k, x, value, n, groups=-(-n // 256))
                    elif way == 1:
                        list_ = sp.Commands().dispatch(k, x, value, n, groups=-(-n // 256))
                        fence = queue.submit(list_)
                    else:
                        go = queue.prepare(k, x, value, n, groups=-(-n // 256))
                        fence = queue.fence(go())
                    if rng.random() < 0.3:
                        fence.wait(rng.choice((30, 60)))
                    other = rng.choice(queues)
                    after = sp.Commands().wait(fence)
                    after.dispatch(add, y, x, x, n, groups=-(-n // 256))
                    done = other.submit(after)
                    done.wait()
                    assert fence.done
                    found = np.asarray(y)[:n]
                    assert (found == 2 * value).all(), f"thread {thread}, step {step}"

        together(work)
        for queue in queues:
            assert queue.reached == queue.submitted
            queue.close()


def test_timeouts_race_with_completion(busy_device):
    """A wait that gives up at the moment the value comes true either way returns, never hangs."""
    with busy_device.kernel("busy_u32") as k, busy_device.queue() as queue:

        def work(rng, thread):
            with busy_device.buffer(4) as y:
                for _ in range(60):
                    steps = rng.randrange(50_000)
                    fence = queue.submit(sp.Commands().dispatch(k, y, steps, groups=1))
                    try:
                        fence.wait(rng.random() * 1e-3)
                    except sp.FenceTimeout as error:
                        assert "was not reached" in str(error)  # noqa: PT017
                    queue.describe()
                    repr(queue)
                fence.wait()

        together(work)


def test_queues_come_and_go(busy_device):
    with busy_device.kernel("noop") as k:

        def work(rng, thread):
            for _ in range(25):
                with busy_device.queue(timing=rng.random() < 0.5) as queue:
                    for _ in range(rng.randrange(5)):
                        queue.launch(k, groups=rng.randrange(4))
                    fence = queue.submit(sp.Commands().dispatch(k, groups=rng.randrange(50)))
                assert fence.done

        together(work)


def test_buffers_close_while_others_use_theirs(busy_device):
    with busy_device.kernel("fill_f32") as k, busy_device.queue() as queue:

        def work(rng, thread):
            for _ in range(80):
                n = rng.choice((16, 3000, 40_000))
                buffer = busy_device.buffer(4 * n)
                fence = queue.launch(k, buffer, float(thread), n, groups=-(-n // 256))
                if rng.random() < 0.5:
                    fence.wait()
                    assert (buffer.read(np.float32, n) == thread).all()
                buffer.close()

        together(work)
        queue.fence(queue.submitted).wait()
        assert busy_device.live_counts()["retired"] == 0
        assert busy_device.live_counts()["buffers"] == 0


def test_closing_a_queue_races_with_submitting(busy_device):
    """Each submission is either taken, and then it ends, or refused as DeviceLost."""
    for _ in range(15):
        queue = busy_device.queue()
        taken, refused = [], []
        started = threading.Barrier(THREADS + 1)

        def work(rng, thread, queue=queue, taken=taken, refused=refused, started=started):
            started.wait()
            for _ in range(40):
                try:
                    taken.append(queue.submit(sp.Commands()))
                except sp.DeviceLost:
                    refused.append(thread)

        closer = threading.Thread(target=lambda q=queue, b=started: (b.wait(), q.close()))
        closer.start()
        together(work)
        closer.join(30)
        assert queue.closed
        assert len(taken) + len(refused) == 40 * THREADS
        assert all(fence.wait().done for fence in taken)


def test_two_threads_close_one_thing(busy_device):
    for _ in range(20):
        queue, buffer = busy_device.queue(), busy_device.buffer(64)
        queue.submit(sp.Commands().fill(buffer, 1))
        together(lambda rng, thread, q=queue, b=buffer: (q.close(), b.close()))
        assert queue.closed
        assert buffer.closed


def test_a_pool_shared_by_queues(busy_device):
    """A second owner of the pool does its job alone: both finish, and right."""
    n = 200_000
    with busy_device.kernel("saxpy_f32") as k:

        def work(rng, thread):
            with busy_device.queue() as queue:
                x, y = np.ones(n, np.float32), np.full(n, thread, np.float32)
                for _ in range(6):
                    queue.launch(k, y, x, 2.0, n, groups=-(-n // 256)).wait()
                assert (y == thread + 12).all()

        together(work)
