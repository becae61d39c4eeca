"""A forked child gets DeviceLost at once from everything it inherited, never a hang, and may open
devices of its own; the parent goes on.

When this fails, a forked child hangs in a device of its parent.
"""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import fork_lock


def in_child(work, timeout_s=30):
    """Runs `work` in a forked child; its exit code is 0 when work returned, 1 when it raised."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"in the child: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hang"


def lost(*calls):
    def work():
        for at, call in enumerate(calls):
            try:
                call()
            except sp.DeviceLost as error:
                if "forked" in str(error):
                    continue
            raise AssertionError(f"call {at} was taken, or said something else")

    return work


@contextlib.contextmanager
def busy_elsewhere():
    """Another thread holds every lock of the package, as it may at any fork."""
    begun, done = threading.Event(), threading.Event()

    def hold():
        with contextlib.ExitStack() as stack:
            for lock in list(fork_lock._locks):
                stack.enter_context(lock)
            begun.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        done.set()
        thread.join()


def inherited(dev):
    with dev.buffer(400) as buffer, dev.kernel("fill_f32") as kernel, dev.queue() as queue:
        things = [dev, buffer, kernel, queue]
        yield things
    things.clear()  # pytest keeps the list until the device was checked


@pytest.fixture
def made(cpu):
    yield from inherited(cpu)


@pytest.fixture
def each(device):
    """The same on each device."""
    yield from inherited(device)


@pytest.mark.parametrize("around", [contextlib.nullcontext, busy_elsewhere])
def test_everything_is_lost_in_the_child(each, around):
    dev, buffer, kernel, queue = each
    commands = sp.Commands().fill(buffer, 1)
    go = queue.prepare(kernel, buffer, 1.0, 100, groups=1)
    fence = queue.submit(commands)
    array = buffer.array(np.float32, 100)
    out = np.zeros(100, np.float32)
    fence.wait()
    calls = [
        lambda: queue.launch(kernel, buffer, 1.0, 100, groups=1),
        lambda: queue.launch(kernel, buffer, 1.0, 100, groups=300),
        go,
        lambda: queue.prepare(kernel, buffer, 1.0, 100, groups=1),
        lambda: queue.submit(commands),
        lambda: queue.write(buffer, out),
        lambda: queue.read(buffer, out),
        lambda: buffer.write(out),
        lambda: buffer.read(np.float32, 100),
        lambda: array.numpy(),
        lambda: fence.wait(),
        lambda: dev.buffer(4),
        lambda: dev.array(out),
        lambda: sp.wrap(dev, out),
        lambda: dev.kernel("noop"),
        lambda: dev.queue(),
        lambda: dev.pipeline(),
        lambda: dev.wait_idle(),
        lambda: sp.Commands().fill(buffer, 0),
    ]
    if dev.uri == "cpu":  # reads host arrays
        calls.append(lambda: queue.launch(kernel, out, 1.0, 100, groups=1))
    with around():
        assert in_child(lost(*calls), 10) == 0
    queue.fence(go()).wait()
    assert (buffer.read(np.float32, 100) == 1).all()


def test_a_fork_while_work_is_in_flight(made):
    dev, buffer, _kernel, queue = made
    with dev.kernel("busy_u32") as busy:
        for _ in range(5):
            fence = queue.submit(sp.Commands().dispatch(busy, buffer, 20_000_000, groups=1))
            assert in_child(lost(fence.wait, lambda: queue.submit(sp.Commands()))) == 0
            fence.wait()


def test_a_pipeline_in_the_child(made):
    dev, buffer, _kernel, _queue = made
    with dev.pipeline(depth=3) as pipe, dev.pipeline() as unused:
        slot = pipe.acquire()
        pipe.submit(pipe.acquire(), sp.Commands().fill(buffer, 7))
        submit = lambda: pipe.submit(slot, sp.Commands())  # noqa: E731
        calls = [unused.acquire, pipe.acquire, submit, pipe.drain, pipe.close]
        assert in_child(lost(*calls)) == 0
        dev.wait_idle()
        assert in_child(lost(*calls)) == 0
        submit()
        pipe.drain()
    assert (buffer.read(np.uint32, 100) == 7).all()


@pytest.mark.parametrize("around", [contextlib.nullcontext, busy_elsewhere])
def test_a_child_opens_its_own(made, around):
    def work():
        for _ in range(2):
            with sp.open("cpu") as dev:
                k = dev.kernel("vecadd_f32")
                x, y = dev.array(np.ones(100_000, np.float32)), dev.empty(100_000, np.float32)
                groups = -(-100_000 // k.group_size[0])
                dev.default_queue.launch(k, y, x, x, 100_000, groups=groups).wait()
                assert (np.asarray(y) == 2).all()

    with around():
        assert in_child(work, 10) == 0


def test_a_fork_inside_a_lock(made):
    """The thread that forks holds a lock: in the child it still does, and releases it."""
    dev, _buffer, _kernel, _queue = made

    with contextlib.ExitStack() as release:
        release.enter_context(dev._lock)
        assert in_child(release.close, 10) == 0


@pytest.mark.parametrize("around", [contextlib.nullcontext, busy_elsewhere])
def test_a_child_lets_go_of_what_it_inherited(each, around):
    """Closing and garbage collection of inherited objects neither hang nor disturb the parent."""
    dev, buffer, kernel, queue = each

    def work():
        for one in (queue, buffer, kernel, dev):
            with contextlib.suppress(sp.DeviceLost):
                one.close()
        gc.collect()
        with pytest.raises(sp.DeviceLost):
            dev.buffer(4)

    busy = queue.submit(sp.Commands().fill(buffer, 0).dispatch(kernel, buffer, 2.0, 100, groups=1))
    with around():
        assert in_child(work, 10) == 0
    busy.wait()
    queue.launch(kernel, buffer, 3.0, 100, groups=1).wait()
    assert (buffer.read(np.float32, 100) == 3).all()


def test_a_child_of_a_child(made):
    dev, _buffer, _, queue = made
    assert in_child(lambda: sys.exit(in_child(lost(lambda: dev.buffer(4))))) == 1  # SystemExit(0)

    def work():
        with sp.open("cpu") as mine:
            assert in_child(lost(lambda: mine.buffer(4), lambda: queue.submit(sp.Commands()))) == 0
            mine.buffer(4).close()

    assert in_child(work) == 0


def test_a_child_exits_as_any_interpreter(tmp_path):
    """sys.exit in the child runs every finalizer; multiprocessing's fork does the same."""
    script = tmp_path / "script.py"
    script.write_text("""
import multiprocessing, os, sys
import numpy as np
import sparkle_drv as sp

def child(result):
    try:
        dev.buffer(4)
    except sp.DeviceLost:
        with sp.open("cpu") as mine:
            result.put(float(mine.array(np.arange(5.0)).numpy().sum()))

dev = sp.open("cpu")
buffer, queue, kernel = dev.buffer(64), dev.queue(), dev.kernel("noop")
queue.submit(sp.Commands().fill(buffer, 1)).wait()
if __name__ == "__main__":
    pid = os.fork()
    if not pid:
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    context = multiprocessing.get_context("fork")
    result = context.Queue()
    process = context.Process(target=child, args=(result,))
    process.start()
    print(result.get(timeout=30))
    process.join(30)
    assert process.exitcode == 0
    queue.launch(kernel, groups=1).wait()
    dev.close()
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    assert done.stderr == ""
    assert (done.returncode, done.stdout.strip()) == (0, "10.0")
