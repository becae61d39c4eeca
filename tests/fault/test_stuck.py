"""A kernel that does not end: every wait times out, nothing it uses is freed, and closing works
afterwards.

When this fails, a kernel that never ends hangs the whole process.
"""

import gc
import threading

import forked
import numpy as np
import pytest

import sparkle_drv as sp


class Stuck:
    """A device of its own with a kernel that runs until `free` is called."""

    def __init__(self, library):
        self.flag = np.zeros(16, np.uint32)
        self.dev = sp.open("cpu")
        self.before = self.dev.live_counts()
        self.kernel = self.dev.kernel(image=library, entry="spin", args="u32* flag")
        self.buffer = self.dev.wrap(self.flag)
        self.queue = self.dev.queue(timing=True)

    def free(self):
        self.flag[0] = 1


@pytest.fixture
def stuck(userlib):
    made = Stuck(userlib.spin())
    yield made
    made.free()
    dev, before = made.dev, made.before
    dev.close()
    assert dev.closed
    vars(made).clear()
    gc.collect()
    after = dev.live_counts()
    assert {k: n for k, n in after.items() if n > before[k]} == {}


def submit(s):
    return s.queue.submit(
        sp.Commands().fill(s.buffer.view(4, 4), 7).dispatch(s.kernel, s.buffer, groups=1).barrier()
    )


def test_the_timeout_shows_the_command_that_runs(stuck):
    fence = submit(stuck)
    with pytest.raises(sp.FenceTimeout) as caught:
        fence.wait(0.05)
    first, fill, spin, barrier = caught.value.submission.splitlines()
    assert first == "submission of 3 command(s):"
    assert fill == f"  0: fill 4 bytes at {stuck.buffer.address + 4:#x} with 0x7 of 4 bytes"
    assert spin.startswith(f"> 1: dispatch spin(flag={stuck.buffer.address:#x}), groups (1, 1, 1)")
    assert "running for" in spin
    assert barrier == "  2: barrier"
    assert not fence.done
    stuck.free()
    assert fence.wait().done
    assert fence.time_ns > 0


def test_a_queue_says_how_long_a_wait_without_a_limit_lasts(stuck):
    queue = stuck.queue
    assert queue.timeout_s == 30
    for wrong, kind in (("soon", TypeError), (None, TypeError), (-1, ValueError)):
        with pytest.raises(kind, match="timeout_s"):
            queue.timeout_s = wrong
    queue.timeout_s = np.float32(0.5) / 16
    fence = submit(stuck)
    for wait in (fence.wait, lambda: fence.time_ns):
        with pytest.raises(sp.FenceTimeout, match=r"within 0\.03125 s"):
            wait()
    with pytest.raises(sp.FenceTimeout, match=r"within 0\.01 s"):
        fence.wait(0.01)
    stuck.free()
    fence.wait()


def test_groups_done_are_counted(stuck):
    fence = stuck.queue.launch(stuck.kernel, stuck.buffer, groups=5)
    with pytest.raises(sp.FenceTimeout, match="of 5 groups done"):
        fence.wait(0.05)
    stuck.free()
    fence.wait()


def test_a_kernel_that_was_closed_is_told_by_its_handle(stuck):
    fence = submit(stuck)
    pointer = stuck.kernel._pointer
    stuck.kernel.close()
    del stuck.kernel
    with pytest.raises(sp.FenceTimeout, match=f"spin|kernel at {pointer:#x}"):
        fence.wait(0.02)
    stuck.free()
    fence.wait()


def test_a_long_list_is_described_around_what_runs(stuck):
    commands = sp.Commands().dispatch(stuck.kernel, stuck.buffer, groups=1)
    for _ in range(500):
        commands.fill(stuck.buffer.view(8, 8), 1)
    fence = stuck.queue.submit(commands)
    with pytest.raises(sp.FenceTimeout) as caught:
        fence.wait(0.02)
    lines = caught.value.submission.splitlines()
    assert lines[0] == "submission of 501 command(s):"
    assert lines[1].startswith("> 0: dispatch")
    assert lines[-1] == "  ... 492 after"
    assert len(lines) == 11
    stuck.free()
    fence.wait()


def test_a_launch_of_ones_own_kernel_never_blocks_its_caller(stuck):
    fence = stuck.queue.launch(stuck.kernel, stuck.buffer, groups=1)
    with pytest.raises(sp.FenceTimeout, match="dispatch spin"):
        fence.wait(0.05)
    stuck.free()
    fence.wait()


def test_an_inline_launch_is_seen_from_another_thread(cpu):
    """busy_u32 is our own, so a single group of it runs in the thread that launches it."""
    y = cpu.array(np.zeros(2, np.uint32))
    busy, queue = cpu.kernel("busy_u32"), cpu.queue()
    launched = []
    thread = threading.Thread(
        target=lambda: launched.append(queue.launch(busy, y, 2**30, groups=1))
    )
    thread.start()
    while not queue.submitted:
        pass
    fence = queue.fence(1)
    with pytest.raises(sp.FenceTimeout, match="dispatch busy_u32"):
        fence.wait(0.02)
    behind = queue.submit(sp.Commands().fill(y.buffer.view(4, 4), 3))
    with pytest.raises(sp.FenceTimeout, match=r"(?s)fill 4 bytes"):
        behind.wait(0.02)
    assert not launched
    thread.join(60)
    behind.wait()
    assert launched == [fence]
    assert y.numpy()[1] == 3
    for thing in (queue, busy, y):
        thing.close()


def test_a_queue_closed_over_it_can_be_closed_later(stuck):
    fence = submit(stuck)
    for _ in range(2):
        with pytest.raises(sp.FenceTimeout, match="dispatch spin"):
            stuck.queue.close(0.05)
    assert not stuck.queue.closed
    for attempt in (lambda: submit(stuck), lambda: stuck.queue.write(stuck.buffer, b"1234")):
        with pytest.raises(sp.DeviceLost):
            attempt()
    stuck.free()
    fence.wait()
    stuck.queue.close()
    assert stuck.queue.closed


def test_a_device_closed_over_it_can_be_closed_later(stuck):
    other = stuck.dev.buffer(64)
    fence = submit(stuck)
    for _ in range(2):
        with pytest.raises(sp.FenceTimeout, match="dispatch spin"):
            stuck.dev.close(0.05)
    with pytest.raises(sp.DeviceLost):
        stuck.dev.buffer(4)
    with pytest.raises(sp.DeviceLost):
        submit(stuck)
    stuck.free()
    fence.wait()
    stuck.dev.close()
    assert other.closed
    assert stuck.kernel.closed
    assert stuck.queue.closed


def test_what_it_uses_is_kept_until_it_ends(stuck):
    fence = submit(stuck)
    buffer, kernel = stuck.dev.buffer(1 << 16), stuck.dev.kernel("noop")
    before = stuck.dev.live_counts()
    buffer.close()
    kernel.close()
    counts = stuck.dev.live_counts()
    assert counts["retired"] == before["retired"] + 2
    assert counts["native_allocations"] == before["native_allocations"]
    assert counts["native_kernels"] == before["native_kernels"]
    stuck.free()
    fence.wait()
    counts = stuck.dev.live_counts()
    assert counts["retired"] == 0
    assert counts["native_allocations"] == before["native_allocations"] - 1
    assert counts["native_kernels"] == before["native_kernels"] - 1


def test_other_queues_go_on(stuck):
    fence = submit(stuck)
    with stuck.dev.queue() as other, stuck.dev.kernel("noop") as noop:
        other.launch(noop, groups=100).wait()
        other.submit(sp.Commands().dispatch(noop, groups=3)).wait()
        behind = other.submit(sp.Commands().wait(fence))
        with pytest.raises(sp.FenceTimeout, match="wait for value 1 of the queue"):
            behind.wait(0.02)
        assert not stuck.dev.idle
        stuck.free()
        behind.wait()
    assert stuck.dev.idle


def test_a_queue_forgotten_over_it(stuck):
    """The finalizer waits a little and lets go; the work keeps what it needs."""
    other = stuck.dev.queue()
    other.submit(sp.Commands().dispatch(stuck.kernel, stuck.buffer, groups=1))
    del other
    gc.collect()
    assert stuck.dev.live_counts()["queues"] == 1
    stuck.free()


def test_a_device_forgotten_over_it(userlib):
    """In a process of its own: what still runs keeps its code and memory whoever forgets it."""
    code = """
import gc, sys, time
import numpy as np
import sparkle_drv as sp
flag = np.zeros(1, np.uint32)
dev = sp.open("cpu")
spin = dev.kernel(image=sys.argv[1], entry="spin", args="u32*")
dev.queue().submit(sp.Commands().dispatch(spin, dev.wrap(flag), groups=1))
del dev, spin
for _ in range(3):
    gc.collect()
    time.sleep(0.1)
flag[0] = 1
time.sleep(0.1)
with sp.open("cpu") as dev:
    print("alive", sum(dev.live_counts()["native_" + k] for k in ("queues", "kernels")))
"""
    done = forked.run(code, userlib.spin())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("alive")
