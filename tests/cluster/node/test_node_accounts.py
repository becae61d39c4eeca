"""Quotas hold for all sessions of a client together, and what a session held is given back once.

When this fails, a client multiplies its quotas by its sessions, and keeps all others out.
"""

from __future__ import annotations

import contextlib
import gc
import struct
import sys
import threading
import time
import weakref

import pytest
from cluster_kit import Answer, lent, raw

import sparkle_drv as sp
from sparkle_drv.cluster.node import session, transfers
from sparkle_drv.cluster.node.accounts import SHARED, Account
from sparkle_drv.cluster.node.quotas import Quotas
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.core.abi import records

MIB = 1 << 20
FEW = Quotas(memory=MIB, buffers=3, flight=MIB, waiting=MIB, sessions=2)


@pytest.fixture
def node():
    with lent("cpu", quotas=FEW) as made:
        yield made


def until(true, timeout_s=10.0):
    end_s = time.monotonic() + timeout_s
    while not true() and time.monotonic() < end_s:
        time.sleep(0.01)
    return true()


def sessions(node, count):
    assert until(lambda: node.node.live()["sessions"] == count)


def opened(client):
    client.open()
    return client


def long_kernel(client, at, loops=200_000_000):
    """Starts a kernel that uses the memory at `at` for about a second."""
    client.ask("queue", queue=1, timing=False)
    packed = struct.pack("=QI4xQ", at, loops, 4)
    head = records.DISPATCH_HEAD
    kernel = client.load("busy_u32")["kernel"]
    record = head.pack(records.DISPATCH, head.size + len(packed), kernel, 1, 1, 1, 1, 1, 1, 0, 16)
    client.submit(1, 1, record + packed)
    client.ask("counts")  # the node has the request


def full(client, nbytes=1):
    with pytest.raises(Answer, match="quota memory: expected at most 1048576") as refused:
        client.alloc(nbytes)
    assert refused.value.kind == "OutOfDeviceMemory"


def test_a_client_with_all_its_sessions_keeps_nobody_out(node):
    with raw(node.air, name="mallory"), raw(node.air, name="mallory"):
        with pytest.raises(Refused, match="quota sessions: 2 at most, 2 are here"):
            raw(node.air, name="mallory").__enter__()
        with raw(node.air, name="alice") as alice, raw(node.air, name="bob"):
            opened(alice).alloc(MIB)
            sessions(node, 4)
    sessions(node, 0)
    assert not node.node._accounts


def test_the_sessions_of_a_client_share_its_memory(node):
    with raw(node.air, name="mallory") as one, raw(node.air, name="mallory") as two:
        opened(one).alloc(MIB // 2)
        at = opened(two).alloc(MIB // 2)
        full(one)
        full(two)
        with raw(node.air, name="alice") as alice:
            opened(alice).alloc(MIB)
        two.ask("free", address=at)
        one.alloc(MIB // 4)
        two.ask("bye")  # its end gives nothing back a second time
        assert one.ask("counts")["counts"]["memory"] == 3 * MIB // 4
        full(one, MIB // 4 + 1)
        one.alloc(MIB // 4)
    sessions(node, 0)
    with raw(node.air, name="mallory") as again:
        opened(again).alloc(MIB)


@contextlib.contextmanager
def allocated():
    """A function that returns the bytes that this process has allocated since, kept by kernels or
    not.
    """
    gc.collect()
    with sp.open("cpu") as device:

        def nbytes():
            return device.live_counts()["native_allocated_nbytes"]

        before = nbytes()
        yield lambda: nbytes() - before


def allocate(client, nbytes=MIB):
    """Allocates, as soon as the node allows that."""
    for _ in range(1000):
        with contextlib.suppress(Answer):
            return client.alloc(nbytes)
        time.sleep(0.01)
    return client.alloc(nbytes)


def test_freed_memory_counts_until_no_kernel_uses_it(node):
    with allocated() as nbytes, raw(node.air) as client:
        at = opened(client).alloc(MIB)
        long_kernel(client, at)
        client.ask("free", address=at)
        allocate(client)
        assert nbytes() < 2 * MIB
        client.wait(1, 1)


def test_memory_of_a_departed_client_counts_until_no_kernel_uses_it(node, monkeypatch):
    monkeypatch.setattr(session, "END_S", 0.01)
    with allocated() as nbytes, raw(node.air, name="mallory") as client:
        long_kernel(client, opened(client).alloc(MIB))
        node.air.kill(client.endpoint.transport.name)
        sessions(node, 0)
        with raw(node.air, name="mallory") as again:
            allocate(opened(again))
            assert nbytes() < 2 * MIB


def test_the_sessions_of_a_client_share_what_may_be_in_flight(node, monkeypatch):
    """The first upload never arrives; the second waits, and goes on when the first session ends."""
    monkeypatch.setattr(transfers, "SILENT_S", 30.0)
    with raw(node.air, name="mallory") as stuck, raw(node.air, name="mallory") as other:
        for client in (stuck, other):
            opened(client).ask("queue", queue=1, timing=False)
        at = other.alloc(MIB // 2)
        stuck_at = stuck.alloc(MIB // 2)
        stuck.post(
            "write", queue=1, value=1, address=stuck_at, data=None, transfer=1, nbytes=MIB // 2
        )
        stuck.post(
            "write", queue=1, value=2, address=stuck_at, data=None, transfer=2, nbytes=MIB // 2
        )
        assert until(lambda: stuck.ask("counts")["counts"]["flight"] == MIB)
        other.write(1, 1, at, bytes(MIB // 2), transfer=1)
        assert other.ask("counts")["counts"]["flight"] == MIB
        assert not other.reached.get(1)
        node.air.kill(stuck.endpoint.transport.name)
        assert other.wait(1, 1) is None
        assert until(lambda: not other.ask("counts")["counts"]["flight"])


def test_requests_that_wait_are_given_back_when_the_session_ends(node):
    with raw(node.air, name="mallory") as flood, raw(node.air, name="mallory") as other:
        opened(flood).ask("queue", queue=1, timing=False)
        flood.post("submit", queue=1, value=1, records=None, transfer=1, nbytes=8)  # nothing comes
        for value in range(2, 60):
            flood.submit(1, value, records.barrier() * 4000)
        flood.until(lambda: flood.ended, "the end")
        assert flood.ended == "quota waiting: 1048576 bytes of requests wait"
        sessions(node, 1)
        account = node.node._accounts["mallory"]
        assert until(lambda: account.held("waiting") == 0)
        other.open()
        assert not other.ended
    sessions(node, 0)
    assert until(lambda: account.empty)


@pytest.mark.parametrize("item", [[[]] * 20000, {"do": "x", "y": [{}] * 20000}])
def test_an_item_counts_as_what_it_takes_in_memory(item):
    """A list of empty lists: one byte each on the wire, 64 in memory."""
    assert session._nbytes(item) >= 20000 * sys.getsizeof([])
    assert session._nbytes({"do": "read", "data": b"x" * 500}) < 2000


def test_an_ended_session_keeps_no_memory_for_a_transfer(node):
    with raw(node.air) as client:
        opened(client)
        sessions(node, 1)
        (server,) = node.node._sessions
        channel = server.channel
        client.channel.end("gone")
        assert until(lambda: channel.ended)
        room = transfers.Room(channel, Account(FEW).flight, threading.Event(), 64, transfer=9)
        data = weakref.ref(room._data)
        del room
        assert data() is None


def test_an_account_is_exact_under_many_threads():
    account = Account(Quotas(**dict.fromkeys(SHARED, 1000)))

    def work():
        for n in range(2000):
            name = SHARED[n % len(SHARED)]
            account.take(name, 3)
            account.give(name, 3)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert account.empty
    with pytest.raises(ValueError, match="quota flight: expected at most 1000, got 1001 more"):
        account.take("flight", 1001)
    assert account.empty
