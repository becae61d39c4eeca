"""Credit for bulk data: it runs out, comes back, and no client keeps others from it.

When this fails, one client that announces uploads and sends nothing stops the uploads of others.
"""

from __future__ import annotations

import threading
import time

import pytest
from air_endpoints import wired
from cluster_kit import NODE, caller

from sparkle_drv.cluster.channel.bulk import CHUNK, FLIGHT, LATE_RTO, Receiving
from sparkle_drv.cluster.channel.credit import BULK, Credit
from sparkle_drv.cluster.channel.endpoint import Endpoint
from sparkle_drv.cluster.channel.stream import WINDOW

LATE_S = 1.0


def credit_of(chunks, *names):
    """A Credit of so many chunks, and the parts of these clients."""
    credit = Credit(len(names) * WINDOW + chunks * CHUNK)
    return credit, *[credit.admit(name) for name in names]


def test_credit_runs_out_and_is_waited_for():
    credit = Credit(3 * WINDOW + BULK)
    alice, *more = [credit.admit("alice") for _ in range(4)]
    assert more == [alice, alice, None], "bulk was left nothing"
    asked = []
    assert alice.take(BULK - CHUNK, lambda: None)
    assert not alice.take(2 * CHUNK, lambda: asked.append(1))
    assert not alice.take(2 * CHUNK, lambda: asked.append(2))
    alice.dismiss()
    assert asked == [], "less than was asked for"
    alice.give(CHUNK)
    assert asked == [1, 2]
    assert alice.take(2 * CHUNK, lambda: None)


def test_free_credit_goes_to_the_client_that_holds_least():
    credit, mallory, alice, bob = credit_of(3, "mallory", "alice", "bob")
    served = []

    def ask(client, name):
        def later():
            served.append(name)
            assert client.take(CHUNK, later)

        if not client.take(CHUNK, later):
            return
        served.append(name)

    for _ in range(6):
        ask(mallory, "mallory")
    for _ in range(2):
        ask(alice, "alice")
        ask(bob, "bob")
    assert served == ["mallory"] * 3
    for client in (mallory, mallory, alice, bob, mallory):
        client.give(CHUNK)
    assert served[3:] == ["alice", "bob", "alice", "bob", "mallory"]
    assert not credit.left


def test_a_late_client_gets_credit_only_once_its_bytes_are_settled():
    credit, mallory, alice = credit_of(2, "mallory", "alice")
    served = []
    assert mallory.take(CHUNK, lambda: None)
    assert mallory.take(CHUNK, lambda: None)
    assert not mallory.take(CHUNK, lambda: served.append("mallory"))
    assert not alice.take(CHUNK, lambda: served.append("alice"))
    mallory.lapse(2 * CHUNK)
    assert served == ["alice"]
    assert alice.take(CHUNK, lambda: None)
    assert not mallory.take(CHUNK, lambda: served.append("again")), "it was late"
    mallory.settle(CHUNK)
    assert served == ["alice"], "half of its bytes are late"
    mallory.settle(CHUNK)
    assert served == ["alice", "mallory", "again"]
    assert credit.left == CHUNK


def test_a_request_that_was_cancelled_is_forgotten():
    credit, alice = credit_of(1, "alice")
    served = []
    receiving = Receiving(memoryview(bytearray(2 * CHUNK)), lambda: None, 0.0)
    assert receiving.extend(alice, lambda: served.append(1), 0.0)
    assert alice._waiting
    receiving.release(alice)
    assert served == []
    assert not alice._waiting
    assert credit.left == CHUNK
    alice.dismiss()
    assert not credit._clients
    assert credit.left == CHUNK + WINDOW


@pytest.mark.parametrize("arrive", range(3))
def test_the_sums_are_right_in_each_order_of_arrival_and_lapse(arrive):
    """`arrive` chunks come in time, one comes late, the rest never."""
    credit, alice = credit_of(FLIGHT, "alice")
    receiving = Receiving(memoryview(bytearray(8 * CHUNK)), lambda: None, 0.0)
    assert receiving.extend(alice, lambda: None, 0.0)
    assert not credit.left
    for index in range(arrive):
        assert receiving.put(index, bytes(CHUNK), 0.5)
        assert not receiving.settle()
        alice.give(CHUNK)
    begin = 0.5 if arrive else 0.0
    assert not receiving.lapse(begin + 0.9 * LATE_S, LATE_S)
    assert receiving.lapse(begin + LATE_S, LATE_S) == (FLIGHT - arrive) * CHUNK
    alice.lapse((FLIGHT - arrive) * CHUNK)
    assert not receiving.lapse(9.0, LATE_S), "credit lapsed twice"
    assert credit.left == FLIGHT * CHUNK
    assert receiving.put(arrive, bytes(CHUNK), 9.0)
    assert receiving.settle()
    alice.settle(CHUNK)
    receiving.release(alice)
    assert credit.left == FLIGHT * CHUNK
    assert (alice._held, alice._late) == (0, 0)


def test_a_client_that_announces_uploads_and_sends_nothing_keeps_nobody_out():
    with wired() as wire:
        other = Endpoint(wire.air.endpoint("alice-1"))
        try:
            alice = other.connect(NODE, caller("alice"))
            assert wire.until(lambda: len(wire.others) == 2)
            for transfer in range(1, 9):
                wire.other.expect(transfer, memoryview(bytearray(4 << 20)), lambda: None)
            assert wire.node.credit.left < CHUNK
            data, into, done = bytes(range(256)) * 4096, bytearray(1 << 20), threading.Event()
            alice.send_bulk(1, memoryview(data))
            wire.others[1].expect(1, memoryview(into), done.set)
            wire.other.tick(time.monotonic() + LATE_RTO * 0.25, 60.0)  # that time is over
            assert done.wait(20), "the upload did not end"
            assert into == data
        finally:
            other.close()


def test_a_client_that_was_late_is_served_again():
    """The receiver asks again for late chunks, also of a transfer that waits for more credit."""
    with wired() as wire:
        credit = wire.other._credit
        assert credit.take(CHUNK, lambda: None)
        data, into, done = bytes(range(256)) * 16384, bytearray(4 << 20), threading.Event()
        give, wire.other._give = wire.other._give, lambda *lost: None  # the grants are lost
        wire.other.expect(1, memoryview(into), done.set)
        begin = time.monotonic()
        wire.other.tick(begin + LATE_RTO * 0.25, 60.0)
        assert credit._waiting
        assert credit._late == 2 * CHUNK
        wire.channel.send_bulk(1, memoryview(data))
        wire.other._give = give
        wire.other.tick(begin + 2 * LATE_RTO * 0.25, 60.0)
        assert done.wait(20), "the upload did not end"
        assert into == data
        assert wire.until(lambda: (credit._held, credit._late) == (CHUNK, 0))
