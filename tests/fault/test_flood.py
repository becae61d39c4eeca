"""A producer that is faster than the cpu device: it waits for room, and nothing is lost.

When this fails, a fast producer loses work or fills the memory.
"""

import resource
import signal
import threading
import time
from pathlib import Path

import forked
import numpy as np
import pytest
from userlib import HEAD, KERNEL

import sparkle_drv as sp

# Counts the launches that come in their turn, and those that do not.
IN_TURN = (
    HEAD
    + KERNEL.format(name="in_turn")
    + """
{
    const struct { uint32_t *state; uint32_t number; } *a = args;
    (void)group;
    (void)size;
    if (a->state[0] == a->number)
        a->state[0]++;
    else
        a->state[1]++;
}
"""
)

FLOOD = 100_000
MOST = 5000
"""More submissions than native/cpu/runtime/queue.c lets wait."""


@pytest.fixture
def flag(userlib):
    """A kernel that runs until `flag[0]` is 1, and a device of its own: (device, launch it on)."""
    free = np.zeros(1, np.uint32)
    with sp.open("cpu") as dev:
        kernel = dev.kernel(image=userlib.spin(), entry="spin", args="u32*")
        gate = dev.wrap(free)
        try:
            yield dev, free, lambda queue: queue.launch(kernel, gate, groups=1)
        finally:
            free[0] = 1


def resident_nbytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def flood(submit, times=FLOOD):
    for _ in range(times):
        submit()


def comes_to_rest(queue):
    """The newest value, once no more are given out."""
    seen = -1
    while (now := queue.submitted) != seen:
        seen = now
        time.sleep(0.3)
    return seen


def test_memory_is_bounded_and_the_order_kept(flag, userlib):
    dev, free, gate = flag
    state = dev.buffer(8)
    count = dev.kernel(image=userlib.library(IN_TURN), entry="in_turn", args="u32* u32")
    with dev.queue() as queue:
        gate(queue)
        before = resident_nbytes()
        done = []

        long = sp.Commands()
        for _ in range(200):
            long.barrier()

        def produce():
            for i in range(FLOOD // 2):
                queue.submit(long)
                queue.launch(count, state, i, groups=1)
            done.append(True)

        producer = threading.Thread(target=produce)
        producer.start()
        waiting = comes_to_rest(queue)
        grown = resident_nbytes() - before
        free[0] = 1
        producer.join()
        queue.fence(queue.submitted).wait(30)
        assert done
        assert waiting < MOST
        assert grown < 64 << 20
        assert queue.submitted == 1 + FLOOD
        assert list(state.read(np.uint32, 2)) == [FLOOD // 2, 0]
    state.close()


def waits(dev, queue, buffer):
    """By name, each way to submit something."""
    add = dev.kernel("copy_f32")
    host = np.zeros(1, np.float32)
    commands = sp.Commands().fill(buffer, 7)
    return {
        "submit": lambda: queue.submit(commands),
        "launch": lambda: queue.launch(add, buffer, buffer.view(4, 4), 1, groups=1),
        "prepared": queue.prepare(add, buffer, buffer.view(4, 4), 1, groups=1),
        "write": lambda: queue.write(buffer, host),
        "read": lambda: queue.read(buffer, host),
    }


def test_a_queue_that_stays_full_is_a_timeout(flag):
    """Nothing is submitted then, however it was asked for; and all goes on once there is room."""
    dev, free, gate = flag
    with dev.queue() as queue, dev.buffer(8) as buffer:
        queue.timeout_s = 0.01
        ways = waits(dev, queue, buffer)
        gate(queue)
        with pytest.raises(sp.FenceTimeout):
            flood(ways["submit"])
        submitted = queue.submitted
        for way in ways.values():
            with pytest.raises(sp.FenceTimeout, match=r"full.*nothing was submitted") as caught:
                way()
            assert "spin" in caught.value.submission
        assert queue.submitted == submitted < MOST
        free[0] = 1
        queue.fence(submitted).wait(30)
        for way in ways.values():
            way()
        queue.fence(queue.submitted).wait(30)


def test_bytes_on_their_way_are_bounded(flag):
    dev, free, gate = flag
    each = np.zeros(1 << 20, np.uint8)
    with dev.queue() as queue, dev.buffer(each.nbytes) as buffer:
        queue.timeout_s = 0.01
        gate(queue)
        before = resident_nbytes()
        with pytest.raises(sp.FenceTimeout):
            flood(lambda: queue.write(buffer, each), 300)
        assert queue.submitted > 2
        assert resident_nbytes() - before < 128 << 20
        free[0] = 1
        queue.fence(queue.submitted).wait(30)


def test_a_queue_that_waits_for_another_one(flag):
    """The producer of both is one thread: its wait ends, and both go on."""
    dev, free, gate = flag
    with dev.queue() as first, dev.queue() as second, dev.buffer(8) as buffer:
        first.timeout_s = second.timeout_s = 0.01
        part = buffer.view(0, 4)
        fence = gate(first)
        second.submit(sp.Commands().wait(fence))
        with pytest.raises(sp.FenceTimeout) as caught:
            flood(lambda: second.submit(sp.Commands().fill(part, 1)))
        assert "wait" in caught.value.submission
        first.submit(sp.Commands().fill(buffer.view(4, 4), 1))
        free[0] = 1
        second.submit(sp.Commands().fill(part, 2)).wait(30)
        first.fence(first.submitted).wait(30)


CHILD = """
import sys, threading, time
import numpy as np
import sparkle_drv as sp
dev = sp.open("cpu")
flag = np.zeros(1, np.uint32)
spin = dev.kernel(image=sys.argv[1], entry="spin", args="u32*")
queue = dev.queue()
gate = queue.launch(spin, dev.wrap(flag), groups=1)
def watch():
    seen = -1
    while seen != queue.submitted:
        seen = queue.submitted
        time.sleep(0.2)
    print("waiting", flush=True)
threading.Thread(target=watch, daemon=True).start()
try:
    while True:
        queue.submit(sp.Commands().barrier())
except KeyboardInterrupt:
    print("interrupted", flush=True)
flag[0] = 1
queue.submit(sp.Commands().barrier()).wait()
dev.close()
print("done", flush=True)
"""


def test_ctrl_c_ends_the_wait_for_room(userlib):
    with forked.start(CHILD, userlib.spin()) as process:
        assert process.line() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == ("interrupted\ndone\n", 0)
