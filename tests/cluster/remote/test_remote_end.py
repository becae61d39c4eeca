"""A node is lost, restarted, refuses or answers nonsense; a client forks or closes.

When this fails, a program hangs when the machine it uses goes away.
"""

import gc
import os
import signal
import threading
import time

import cluster_kit
import numpy as np
import pytest
import remote_kit

import sparkle_drv as sp
from sparkle_drv.cluster.remote import hosts
from sparkle_drv.cluster.transport.air import Air

QUICK = {"rto_s": 0.05, "silence_s": 1.0}


def busy(device, queue, seconds=30.0):
    """Work that does not end by itself soon, and what keeps it."""
    kernel, out = device.kernel("busy_u32"), device.buffer(4)
    fence = queue.launch(kernel, out, int(seconds * 1e8), groups=1)
    return fence, kernel, out


def gone(device, before_s=3.0):
    """Everything says DeviceLost, quickly."""
    start = time.monotonic()
    with pytest.raises(sp.DeviceLost):
        device.default_queue.submit(sp.Commands()).wait()
    with pytest.raises(sp.DeviceLost):
        device.buffer(64)
    with pytest.raises(sp.DeviceLost):
        device.kernel("noop")
    assert not device.healthy
    device.close()
    assert time.monotonic() - start < before_s


@pytest.mark.parametrize("how", ["kill", "cut", "stop"])
def test_a_node_that_is_lost(tmp_path, how):
    air = Air(lease_s=0.2)
    with remote_kit.remote(tmp_path, "cpu:c0", air=air, endpoint=QUICK):
        device = sp.open("box1/cpu:c0")
        queue, out = device.queue(), np.zeros(4, np.uint8)
        fence, _, target = busy(device, queue, 4.0)
        read = queue.read(target, out)
        getattr(air, how)("box1")
        start = time.monotonic()
        for waits in (fence, read):
            with pytest.raises(sp.DeviceLost, match=r"box1/cpu:c0: wait: .*(gone|no word)"):
                waits.wait()
        assert time.monotonic() - start < 2
        gone(device)
        if how != "kill":
            {"cut": air.heal, "stop": air.go}[how]("box1")


def test_who_waits_for_an_answer_is_told(tmp_path):
    air = Air(lease_s=0.2)
    with remote_kit.remote(tmp_path, "cpu:c0", air=air, endpoint=QUICK):
        device = sp.open("box1/cpu:c0")
        air.stop("box1")
        with pytest.raises(sp.DeviceLost, match="box1/cpu:c0: alloc: "):
            device.buffer(64)
        device.close()
        air.go("box1")


def test_a_node_that_was_started_anew(tmp_path):
    air = Air(lease_s=5.0)
    with remote_kit.hosted(tmp_path, air, QUICK):
        with cluster_kit.lent("cpu:c0", air=air, endpoint=QUICK):
            device = sp.open("box1/cpu:c0")
            queue = device.default_queue
            queue.submit(sp.Commands()).wait()
            air.cut("box1")  # its farewell does not arrive
        with cluster_kit.lent("cpu:c0", air=air, endpoint=QUICK, epoch=2):
            with pytest.raises(sp.DeviceLost, match=r"gone|started anew"):
                queue.submit(sp.Commands()).wait()
            gone(device)
            with sp.open("box1/cpu:c0") as again:
                again.default_queue.submit(sp.Commands()).wait()


def test_nobody_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts.Endpoint.connect, "__defaults__", (0.3,))
    words = "box1: nobody of that name answers"
    with remote_kit.hosted(tmp_path, Air()), pytest.raises(sp.DeviceNotFound, match=words):
        sp.open("box1/cpu")
    assert not hosts._shared


def test_a_node_that_refuses(tmp_path):
    from sparkle_drv.cluster.node.quotas import Quotas

    node = remote_kit.remote(tmp_path, "cpu:c0", quotas=Quotas(sessions=1, queues=2))
    with node, sp.open("box1/cpu:c0") as device:
        with pytest.raises(sp.DeviceNotFound, match=r"box1: .*sessions"):
            sp.open("box1/cpu:c0")
        with (
            device.queue(),
            pytest.raises(ValueError, match="box1/cpu:c0: quota queues: expected at most 2"),
        ):
            device.queue()
        device.queue().close()
        with pytest.raises(sp.OutOfDeviceMemory, match=r"^box1/cpu:c0: [^/]*$"):
            device.buffer(1 << 60)
    assert not hosts._shared


def test_one_connection_for_all_devices_of_an_address(tmp_path):
    with remote_kit.remote(tmp_path, "cpu:c0", "cpu:c1"):
        with sp.open("box1/cpu:c0") as a, sp.open("box1/cpu:c1") as b:
            assert len(hosts._shared) == 1
            (shared,) = hosts._shared.values()
            assert shared.users == 2
            endpoint = shared.dialed.endpoint
            a.close()
            b.default_queue.submit(sp.Commands()).wait()
        assert not hosts._shared
        assert endpoint._closed
        names = [t.name for t in threading.enumerate()]
        assert "sparkle-bye" not in names


class Nonsense:
    """Answers of a node that is not well."""

    def __init__(self, channel, item):
        self.channel, self.item = channel, item
        channel.deliver = self.deliver

    def deliver(self, item):
        if item.get("re"):
            self.channel.post({"re": item["re"], **self.item})
            self.channel.flush()


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"ok": {}}, "expected the field info, got none"),
        ({"ok": {"info": {}, "kernels": [], "clock": True}}, "expected the field uri, got none"),
        ({"ok": {"info": {"uri": 5}, "kernels": [], "clock": True}}, "expected str"),
        ({"ok": 5}, "a message failed here: Damaged"),
        ({"error": "SystemExit", "words": "x\x1b[0m"}, r"box1/cpu: x\?\[0m"),
        ({"error": "DeviceNotFound", "words": "cpu: none"}, "^box1/cpu: none$"),
    ],
)
def test_answers_that_make_no_sense(tmp_path, item, says):
    air = Air()
    kept = []
    endpoint = cluster_kit.Endpoint(
        air.endpoint("box1"), answerer=cluster_kit.answerer(),
        accept=lambda channel: kept.append(Nonsense(channel, item)),
    )  # fmt: skip
    try:
        with remote_kit.hosted(tmp_path, air), pytest.raises(sp.SparkleError, match=says):
            sp.open("box1/cpu")
    finally:
        endpoint.close()
    assert not hosts._shared


def test_a_forked_child_is_told(box):
    with box.buffer(64) as buffer, box.kernel("noop") as kernel:
        queue = box.default_queue
        launch = queue.prepare(kernel, groups=1)
        queue.fence(launch()).wait()
        child = os.fork()
        if not child:
            signal.alarm(20)
            told = 0
            for attempt in (
                launch, lambda: box.buffer(8), lambda: buffer.read(np.uint8, 1),
                lambda: queue.fence(1).wait(),
            ):  # fmt: skip
                try:
                    attempt()
                except sp.DeviceLost as error:
                    told += "forked" in str(error)
            buffer.close()
            box.close()
            os._exit(10 + told)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 14
        queue.fence(launch()).wait()
        del launch


def test_a_device_that_is_forgotten(node):
    """Its session ends with the last reference."""
    device = sp.open("box1/cpu:c0")
    buffer = device.buffer(64)
    buffer.write(np.ones(64, np.uint8))
    del device, buffer
    gc.collect()
    end_s = time.monotonic() + 5
    while hosts._shared and time.monotonic() < end_s:
        time.sleep(0.01)
    assert not hosts._shared


def test_a_wait_that_hears_nothing_asks(tmp_path):
    """News that is lost for good, as no wire may do it, is asked for."""
    with remote_kit.remote(tmp_path, "cpu:c0") as lent, sp.open("box1/cpu:c0") as device:
        (session,) = lent.node._sessions
        queue = device.queue()
        queue.submit(sp.Commands()).wait()
        lane = session.lanes[queue._handle.own.number]
        say, lane._news.say = lane._news.say, lambda *_, **again: None
        fence = queue.submit(sp.Commands())
        time.sleep(0.05)
        assert not fence.done
        lane._news.say = say
        start = time.monotonic()
        fence.wait(5)
        assert time.monotonic() - start < 1.5


def test_finalizers_wait_for_no_lock(box):
    """They run anywhere, also while their own thread has a lock of the channel or the session."""
    channel, queue, busy_queue = box._backend._session.channel, box.queue(), box.queue()
    with box.kernel("noop") as kernel, box.buffer(64) as buffer:
        fence, *kept = busy(box, busy_queue, 4.0)
        launch = queue.prepare(kernel, groups=1)
        queue.fence(launch()).wait()
        for lock in (channel._lock, box._backend._session._changed, box._backend._mirrors._lock):
            start = time.monotonic()
            with lock, pytest.raises(sp.FenceTimeout):
                busy_queue.close(0.01)
            assert time.monotonic() - start < 1
        with channel._lock:
            del launch
            gc.collect()
            buffer.close()
            kernel.close()
            queue.close()
        fence.wait()
        for one in kept:
            one.close()
        busy_queue.close()
