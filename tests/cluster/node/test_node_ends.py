"""Sessions that end: by themselves, by a client that vanishes, over work that does not end.

When this fails, a client that vanishes leaves memory and work on the node.
"""

from __future__ import annotations

import gc
import struct
import threading
import time

import pytest
from cluster_kit import caller, lent, raw

import sparkle_drv as sp
from sparkle_drv.cluster.node import session
from sparkle_drv.core.abi import records


@pytest.fixture
def node():
    with lent("cpu") as made:
        yield made


def threads():
    return {
        t.name for t in threading.enumerate() if t.name.startswith(("sparkle-sub", "sparkle-e"))
    }


def gone(node):
    """Wait until the node has no session, and nothing of one."""
    end_s = time.monotonic() + 10
    while (node.node.live() != {"sessions": 0} or threads()) and time.monotonic() < end_s:
        time.sleep(0.01)
    assert node.node.live() == {"sessions": 0}
    assert not threads()


def busy(client):
    """A session with something of everything, and work under way."""
    client.open()
    at = client.alloc(1 << 20)
    client.load("noop")
    client.ask("queue", queue=1, timing=True)
    client.ask("queue", queue=2, timing=False)
    client.submit(1, 1, records.fill(at, 1 << 20, 1, 1) * 100)
    client.post("write", queue=2, value=1, address=at, data=None, transfer=3, nbytes=1 << 20)


def test_a_client_that_vanishes_leaves_nothing(node):
    gc.collect()  # memory of earlier tests is counted, too
    with sp.open("cpu") as local:
        before = local.live_counts()["native_allocated_nbytes"]
        with raw(node.air) as client:
            busy(client)
            assert local.live_counts()["native_allocated_nbytes"] > before
            node.air.kill(client.endpoint.transport.name)
            gone(node)
        assert local.live_counts()["native_allocated_nbytes"] == before
    assert node.said[-1].startswith("tester: ends: raw-")


def test_bye_lets_go_of_everything_before_the_session_ends(node):
    with raw(node.air) as client:
        busy(client)
        client.ask("bye")
        assert threads() == set()
        assert node.node.live()["buffers"] == 0
    gone(node)


def test_work_that_does_not_end_is_abandoned(node, monkeypatch):
    monkeypatch.setattr(session, "END_S", 0.1)
    with raw(node.air) as client:
        client.open()
        client.ask("queue", queue=1, timing=False)
        kernel, at = client.load("busy_u32")["kernel"], client.alloc(4)
        packed = struct.pack("=QI4xQ", at, 1_000_000_000, 4)
        head = records.DISPATCH_HEAD
        record = head.pack(
            records.DISPATCH, head.size + len(packed), kernel, 1, 1, 1, 1, 1, 1, 0, 16
        )
        client.submit(1, 1, record + packed)
        client.ask("counts")
        node.air.kill(client.endpoint.transport.name)
        end_s = time.monotonic() + 5
        while node.node.live()["sessions"] and time.monotonic() < end_s:
            time.sleep(0.01)
        assert node.node.live()["sessions"] == 0
        with raw(node.air) as healthy:
            healthy.open()
            healthy.ask("queue", queue=1, timing=False)
            address = healthy.alloc(8)
            healthy.write(1, 1, address, b"all well")
            assert healthy.read(1, 2, address, 8) == b"all well"
    gone(node)  # the kernel ends by itself, then its thread


def test_a_node_that_closes_tells_its_clients(node):
    with raw(node.air) as client:
        busy(client)
        node.node.close()
        client.until(lambda: client.ended, "the end")
        assert client.ended == "the node ends"
    gone(node)


def test_sessions_of_a_revoked_client_end(node):
    keys = [bytes([n]) * 32 for n in (1, 2)]
    made = [raw(node.air, caller=caller(trusted=key.hex())) for key in keys]
    with made[0] as eve, made[1] as alice:
        busy(eve)
        node.node.end_revoked(frozenset([keys[0], bytes(32)]))
        eve.until(lambda: eve.ended, "the end")
        assert eve.ended == "the certificate is revoked"
        alice.open()
        alice.alloc(64)
        assert not alice.ended
    gone(node)
