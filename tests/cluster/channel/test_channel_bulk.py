"""Transfers arrive whole, in either direction; credit is never exceeded and always comes back.

When this fails, a transfer to another machine loses bytes or stops for ever.
"""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from air_endpoints import wired

from sparkle_drv.cluster.channel.bulk import CHUNK, FLIGHT, Receiving
from sparkle_drv.cluster.channel.credit import TOTAL, Credit, total
from sparkle_drv.cluster.channel.stream import WINDOW

SIZES = (1, CHUNK - 1, CHUNK, CHUNK + 1, 3_000_001)


def carried(sender, receiver, number, data):
    """The bytes as they arrive."""
    into, done = bytearray(len(data)), threading.Event()
    sender.send_bulk(number, memoryview(data))
    receiver.expect(number, memoryview(into), done.set)
    assert done.wait(20), "the transfer did not end"
    return into


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_transfers_arrive_whole_both_ways(seed):
    chance = np.random.default_rng(seed)
    with wired(seed) as wire:
        for number, size in enumerate(SIZES, 1):
            data = chance.bytes(size)
            assert carried(wire.channel, wire.other, number, data) == data
            assert carried(wire.other, wire.channel, number, data) == data
        assert wire.until(lambda: not wire.channel.unsent() and not wire.other.unsent())
        assert wire.until(lambda: wire.node.credit.left == TOTAL - WINDOW)
        assert wire.client.credit.left == TOTAL - WINDOW


def test_many_transfers_at_once_share_the_credit():
    chance = np.random.default_rng(1)
    with wired() as wire:
        data = [chance.bytes(700_000) for _ in range(12)]
        into = [bytearray(700_000) for _ in data]
        done = threading.Semaphore(0)
        for number, one in enumerate(data, 1):
            wire.channel.send_bulk(number, memoryview(one))
        for number, one in enumerate(into, 1):
            wire.other.expect(number, memoryview(one), done.release)
        for _ in data:
            assert done.acquire(timeout=20)
        assert into == data


def test_no_more_is_under_way_than_the_receiver_granted():
    """A receiver that stops: what its senders have sent meanwhile stays within 2 MiB in all."""
    with wired(rto_s=60) as wire:
        sent, give = [], wire.channel._give
        wire.channel._give = lambda lane, frame: (sent.append(len(frame)), give(lane, frame))
        wire.other._chunk = lambda *chunk: None  # what came is not taken: nothing more is granted
        into = bytearray(16 << 20)
        wire.channel.send_bulk(1, memoryview(bytes(16 << 20)))
        wire.other.expect(1, memoryview(into), lambda: None)
        assert wire.until(lambda: sum(sent) >= FLIGHT * CHUNK)
        time.sleep(0.2)
        assert sum(sent) <= TOTAL


def test_credit_of_a_lost_sender_comes_back():
    with wired() as wire:
        wire.other.expect(7, memoryview(bytearray(16 << 20)), lambda: None)
        assert wire.node.credit.left < TOTAL - WINDOW - FLIGHT // 2 * CHUNK
        wire.channel.end("gone")
        assert wire.until(lambda: wire.node.credit.left == TOTAL)


def test_a_small_receive_buffer_means_less_credit(tmp_path):
    limit = tmp_path / "rmem_max"
    for said, wanted in (("212992\n", (1 << 20) + 212992), ("4194304", TOTAL), ("?", TOTAL)):
        limit.write_text(said)
        assert total(limit) == wanted
    assert total(tmp_path / "none") == TOTAL


def test_chunks_that_do_not_fit_change_nothing():
    into = bytearray(CHUNK + 5)
    receiving = Receiving(memoryview(into), lambda: None, 0.0)
    assert receiving.extend(Credit().admit("alice"), lambda: None, 0.0)
    for index, payload in ((-1, b"x"), (2, b"x"), (1, b"x" * 6), (1, b""), (0, b"x" * 5)):
        assert not receiving.put(index, payload, 0.0)
    assert into == bytearray(CHUNK + 5)
    assert receiving.put(1, b"abcde", 0.0)
    assert not receiving.put(1, b"fghij", 0.0), "a chunk counted twice"
    assert receiving.put(0, bytes(CHUNK), 0.0)
    assert receiving.complete
    assert into[-5:] == b"abcde"


def test_a_transfer_of_no_bytes_is_there_at_once():
    with wired() as wire:
        done = threading.Event()
        wire.other.expect(3, memoryview(bytearray()), done.set)
        assert done.is_set()
