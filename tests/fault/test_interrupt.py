"""Ctrl-C ends a wait, in a process of its own, and so does leaving with work in flight.

When this fails, Ctrl-C does nothing while a kernel runs.
"""

import signal
import time

import forked
import pytest

HEAD = """
import asyncio, sys
import numpy as np
import sparkle_drv as sp
dev = sp.open("cpu")
flag = np.zeros(1, np.uint32)
spin = dev.kernel(image=sys.argv[1], entry="spin", args="u32*")
queue = dev.queue()
buffer = dev.wrap(flag)
fence = queue.submit(sp.Commands().dispatch(spin, buffer, groups=1))
def caught(wait):
    print("waiting", flush=True)
    try:
        wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
FREE = """
flag[0] = 1
fence.wait()
dev.close()
print("done", flush=True)
"""


def start(code, library):
    return forked.start(code, library)


@pytest.mark.parametrize(
    "wait",
    [
        "fence.wait(1000)",
        "dev.wait_idle(1000)",
        "queue.close(1000)",
        "dev.close(1000)",
        "asyncio.run(asyncio.wait_for(fence, 1000))",
        "queue.read(buffer, flag.copy()).wait(1000)",
    ],
)
def test_ctrl_c_ends_a_wait(userlib, wait):
    with start(HEAD + f"caught(lambda: {wait})" + FREE, userlib.spin()) as process:
        assert process.line() == "waiting\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (out, err, process.returncode) == ("interrupted\ndone\n", "", 0)


def test_leaving_with_work_that_ends(userlib):
    code = (
        HEAD
        + """
import threading
threading.Timer(0.3, lambda: flag.__setitem__(0, 1)).start()
print("leaving")
"""
    )
    with start(code, userlib.spin()) as process:
        out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("leaving\n", "", 0)


def test_leaving_with_work_that_never_ends(userlib):
    """The net waits a second for it, then the process goes."""
    with start(HEAD + "print('leaving')", userlib.spin()) as process:
        out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("leaving\n", "", 0)


def test_leaving_without_closing_anything():
    code = """
import sparkle_drv as sp, numpy as np
dev = sp.open("cpu")
a = dev.array(np.ones(100000, np.float32))
k, q, pipe = dev.kernel("fill_f32"), dev.queue(timing=True), dev.pipeline(2)
c = sp.Commands().dispatch(k, a, 1.0, 100000, groups=400)
fences = [q.submit(c) for _ in range(100)]
go = q.prepare(k, a, 2.0, 100000, groups=400)
go()
"""
    done = forked.run(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
