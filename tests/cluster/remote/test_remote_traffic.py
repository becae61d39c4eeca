"""What crosses the wire: how many messages, in which pieces, and when.

When this fails, remote calls send more messages than they need and are slow.
"""

import gc
import time

import numpy as np
import pytest
import remote_kit

import sparkle_drv as sp
from sparkle_drv.cluster.remote import transfers
from sparkle_drv.cluster.transport.air import Air
from sparkle_drv.cluster.transport.base import MessageLane


class Counting(Air):
    """Counts the control messages to the node and from it."""

    def __init__(self):
        super().__init__()
        self.to, self.back = 0, 0

    def _send(self, source, to, lane, message):
        self.to += lane is MessageLane.CONTROL and to == "box1"
        self.back += lane is MessageLane.CONTROL and to != "box1"
        super()._send(source, to, lane, message)


@pytest.fixture
def counted(tmp_path):
    air = Counting()
    with remote_kit.remote(tmp_path, "cpu:c0", air=air), sp.open("box1/cpu:c0") as device:
        yield air, device


def settled(air):
    """Nothing is under way: acknowledgements have gone, too."""
    while True:
        before = air.to, air.back
        time.sleep(0.03)
        if (air.to, air.back) == before:
            return before[0]


def test_100_launches_and_one_wait_are_few_messages(counted):
    air, device = counted
    queue = device.default_queue
    with device.kernel("noop") as kernel:
        launch = queue.prepare(kernel, groups=1)
        queue.fence(launch()).wait()
        fewest = 100
        for _ in range(5):
            before = settled(air)
            for _ in range(100):
                launch()
            queue.fence(queue.submitted).wait()
            fewest = min(fewest, air.to - before)
        assert fewest <= 4, "the first alone, the rest together, and acknowledgements"
        del launch


def test_launches_that_go_together_run_once_each_and_in_order(counted):
    _, device = counted
    queue, chance = device.default_queue, np.random.default_rng(4)
    with device.kernel("vecadd_f32") as kernel, device.array(np.zeros(8, "f4")) as y:
        ones, twos = (device.array(np.full(8, n, "f4")) for n in (1, 2))
        launches = [queue.prepare(kernel, y, y, x, 8, groups=1) for x in (ones, twos)]
        scale = queue.prepare(kernel, y, y, y, 8, groups=1)  # doubles: the order shows
        want = 0
        for _ in range(300):
            which, times = int(chance.integers(3)), int(chance.integers(1, 9))
            for _ in range(times):
                (*launches, scale)[which]()
                want = want * 2 if which == 2 else want + which + 1
            if want > 1 << 15:
                queue.write(y, np.zeros(8, "f4"))
                want = 0
        assert (y.numpy() == want).all()
        del launches, scale


def test_a_lone_launch_leaves_at_once(counted):
    """It does not wait for the endpoint's clock, nor for somebody who waits."""
    air, device = counted
    queue = device.default_queue
    with device.kernel("noop") as kernel:
        for _ in range(3):
            before = settled(air)
            queue.launch(kernel, groups=1)
            assert air.to == before + 1
            queue.fence(queue.submitted).wait()


def test_closing_waits_for_nothing(counted):
    """What is freed goes with what is sent next."""
    air, device = counted
    buffers = [device.buffer(64) for _ in range(20)]
    before = settled(air)
    for buffer in buffers:
        buffer.close()
    assert air.to == before
    assert device.live_counts()["native_buffers"] == 0
    assert air.to - before <= 4


def test_prepared_launches_are_forgotten(counted):
    _, device = counted
    queue = device.default_queue
    with device.kernel("noop") as kernel:
        launches = [queue.prepare(kernel, groups=1) for _ in range(10)]
        for launch in launches:
            queue.fence(launch()).wait()
        assert device.live_counts()["native_prepared"] == 10
        del launch, launches
        gc.collect()
        assert device.live_counts()["native_prepared"] == 0


def test_a_launch_that_the_node_cannot_keep(tmp_path):
    """Its record travels each time."""
    from sparkle_drv.cluster.node.quotas import Quotas

    node = remote_kit.remote(tmp_path, "cpu:c0", quotas=Quotas(prepared=1))
    with node, sp.open("box1/cpu:c0") as device, device.kernel("noop") as kernel:
        queue = device.queue()
        first, second = (queue.prepare(kernel, groups=1) for _ in range(2))
        queue.fence(first()).wait()
        with pytest.raises(sp.KernelFault):
            queue.fence(second()).wait()  # it was on its way before the refusal came
        for launch in (second, first, second):
            queue.fence(launch()).wait()


def test_large_transfers_in_pieces(counted, monkeypatch):
    monkeypatch.setattr(transfers, "PIECE", 1 << 20)
    _, device = counted
    queue = device.default_queue
    rng = np.random.default_rng(5)
    data = rng.integers(0, 256, (5 << 20) + 12345, np.uint8)
    with device.buffer(data.nbytes) as buffer:
        before = queue.submitted
        fence = queue.write(buffer, data)
        assert fence.value == before + 6, "a submission each"
        want = data.copy()
        data[:] = 0  # it was copied
        assert (buffer.read(np.uint8, want.nbytes) == want).all()
        out = np.zeros(want.nbytes, np.uint8)
        first = queue.read(buffer, out)
        queue.submit(sp.Commands().fill(buffer, 1, 1))
        first.wait()
        assert (out == want).all(), "its bytes were not there when its value was"


@pytest.mark.parametrize("nbytes", [1, 32 << 10, (32 << 10) + 1, 128 << 10, 300_001])
def test_transfers_of_all_ways(box, nbytes):
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    with box.buffer(nbytes) as buffer:
        buffer.write(data)
        assert (buffer.read(np.uint8, nbytes) == data).all()


def test_a_list_longer_than_a_message(box):
    commands = sp.Commands()
    with box.buffer(4096) as buffer:
        for i in range(4096):
            commands.fill(buffer.view(i, 1), i % 251, 1)
        box.default_queue.submit(commands).wait()
        assert (buffer.read(np.uint8, 4096) == np.arange(4096) % 251).all()


def test_a_wait_for_a_queue_that_was_closed(box):
    with box.buffer(8) as buffer:
        other = box.queue()
        fence = other.submit(sp.Commands().fill(buffer, 3, 1))
        commands = sp.Commands().wait(fence).fill(buffer.view(0, 4), 4, 1)
        fence.wait()
        other.close()
        box.default_queue.submit(commands).wait()
        assert bytes(buffer.read(np.uint8, 8)) == bytes([4] * 4 + [3] * 4)


def test_times_of_a_timing_queue(box):
    with box.queue(timing=True) as queue, box.kernel("busy_u32") as kernel, box.buffer(4) as out:
        short, long = (queue.launch(kernel, out, n, groups=1) for n in (10, 2_000_000))
        assert 0 <= short.time_ns < long.time_ns
        assert box.timestamp() is not None


def test_100_launches_and_one_wait_take_one_round_trip(tmp_path):
    """At most one and a half, on a wire that takes 0.1 s there and back."""
    air = Air(0, delay_s=(0.05, 0.05))
    endpoint = {"rto_s": 0.5, "silence_s": 20}
    node = remote_kit.remote(tmp_path, "cpu:c0", air=air, endpoint=endpoint)
    with node, sp.open("box1/cpu:c0") as device, device.kernel("noop") as kernel:
        queue = device.queue()
        launch = queue.prepare(kernel, groups=1)
        queue.fence(launch()).wait()
        took = []
        for _ in range(3):
            start = time.monotonic()
            for _ in range(100):
                launch()
            queue.fence(queue.submitted).wait()
            took.append(time.monotonic() - start)
        assert min(took) <= 0.15
        del launch
