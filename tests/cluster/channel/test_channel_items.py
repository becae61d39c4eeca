"""Items arrive once and in order, whatever the wire does.

When this fails, a request to another machine is lost, or done twice.
"""

from __future__ import annotations

import pytest
from air_endpoints import wired

from sparkle_drv.cluster.channel.channel import MOST_ITEM
from sparkle_drv.cluster.channel.stream import AHEAD, WINDOW, Incoming, Outgoing
from sparkle_drv.cluster.wire.values import unpack


@pytest.mark.parametrize("seed", [None, *range(12)])
def test_both_ends_get_every_item_once_and_in_order(seed):
    with wired(seed) as wire:
        for n in range(300):
            wire.channel.post([n, b"x" * (n * 37 % 900)])
            wire.other.post(["back", n])
            if n % 7 == 0:
                wire.channel.flush()
                wire.other.flush()
        assert wire.until(lambda: len(wire.got) >= 300 and len(wire.back) >= 300)
        assert wire.until(lambda: wire.channel.idle and wire.other.idle)
        assert [item[0] for item in wire.got] == list(range(300))
        assert [item[1] for item in wire.back] == list(range(300))
        assert not wire.lost


def test_nobody_needs_to_flush():
    with wired() as wire:
        wire.channel.post("one")
        assert wire.until(lambda: wire.got == ["one"], 1.0)


def test_a_long_item_is_refused_before_anything_is_sent():
    with wired() as wire:
        with pytest.raises(ValueError, match=f"expected at most {MOST_ITEM} bytes"):
            wire.channel.post(b"x" * MOST_ITEM)
        wire.channel.post(b"x" * (MOST_ITEM - 100))
        wire.channel.post("after")
        assert wire.until(lambda: len(wire.got) == 2)


def numbers(taken):
    first, payload = taken
    return list(enumerate(unpack(payload, len(payload)), first))


def test_a_newer_item_of_one_key_replaces_what_was_not_sent():
    out = Outgoing()
    for value in (b"\x01", b"\x02", b"\x03"):
        out.post(value, "key")
    out.post(b"\x09")
    assert numbers(out.take(0.0)) == [(0, 3), (1, 9)]
    out.post(b"\x04", "key")  # the third is on its way: this one follows it
    assert numbers(out.take(0.0)) == [(2, 4)]


def test_what_is_unacknowledged_stays_within_the_window_and_is_sent_again():
    out = Outgoing()
    for _ in range(10):
        out.post(b"\xc4\xff" + bytes(255), None)
    piece = len(b"\xc4\xff" + bytes(255))
    out.post(b"\xc6" + (2 * WINDOW).to_bytes(4, "big") + bytes(2 * WINDOW))
    assert len(numbers(out.take(1.0))) == 10
    assert out.take(1.0) is None, "more than the window was sent"
    assert len(numbers(out.again(2.0))) == 10
    out.acknowledged(4, 3.0)
    assert [n for n, _ in numbers(out.again(3.0))] == [4, 5, 6, 7, 8, 9]
    out.acknowledged(10, 4.0)
    assert len(numbers(out.take(4.0))) == 1, "an item longer than the window never leaves"
    assert piece * 10 < WINDOW


def test_items_come_in_any_order_any_number_of_times():
    into = Incoming()
    assert into.take(2, ["c"], 1) == []
    assert into.take(0, ["a", "b"], 2) == ["a", "b", "c"]
    assert into.take(1, ["b", "c", "d"], 3) == ["d"]
    assert into.take(4 + AHEAD, ["far"], 3) == []
    assert into.expected == 4


def test_items_ahead_take_no_more_than_two_windows():
    """A peer that never sends the first item would otherwise store a gigabyte at the other end."""
    into, frames = Incoming(), 4 * WINDOW // 1024
    for number in range(1, frames):
        assert into.take(number, ["x"], 1024) == []
        assert into.take(number, ["x"], 1024) == [], "a repeated item counts once"
    assert sum(nbytes for _, nbytes in into._ahead.values()) <= 2 * WINDOW
    kept = len(into._ahead)
    assert kept == 2 * WINDOW // 1025
    assert len(into.take(0, ["first"], 1024)) == 1 + kept
    for number in range(into.expected, frames):  # what was dropped comes again
        assert into.take(number, ["x"], 1024) == ["x"]
    assert not into._ahead
    assert into._ahead_nbytes == 0


def test_a_hundred_items_and_one_flush_are_one_frame():
    with wired() as wire:
        assert wire.until(lambda: wire.channel.idle)
        sent = []
        give = wire.channel._give
        wire.channel._give = lambda lane, frame: (sent.append(frame), give(lane, frame))
        for n in range(100):
            wire.channel.post_packed(bytes([n]))
        wire.channel.flush()
        assert wire.until(lambda: len(wire.got) == 100)
        assert len([frame for frame in sent if len(frame) > 100]) <= 2


def test_an_item_that_follows_replaces_the_last_one_that_was_not_sent():
    out = Outgoing()
    for data, follows in ((b"a1", 1), (b"a2", 1), (b"b1", 2), (b"a3", 1), (b"a4", 1), (b"x", None)):
        out.post(data, None, follows)
    assert out.take(0.0)[1].endswith(b"a2b1a4x")
    out.post(b"a5", None, 1)
    assert out.take(0.0)[1].endswith(b"a5"), "what was sent is not changed"
    assert out.nbytes == len(b"a2b1a4xa5")
