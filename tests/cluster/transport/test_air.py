"""The in-process transport: quiet without a seed; with one it misbehaves the same way each time.

When this fails, failures that the cluster tests found cannot be repeated from their seed.
"""

from __future__ import annotations

import queue
import time

import pytest

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport.air import Air
from sparkle_drv.cluster.transport.base import MOST_NBYTES, MessageLane


class End:
    """An endpoint that keeps what comes."""

    def __init__(self, air, name):
        self.wire = air.endpoint(name)
        self.got, self.told = queue.Queue(), queue.Queue()
        self.wire.start(
            lambda sender, message: self.got.put((sender, message)),
            lambda name, alive: self.told.put((name, alive)),
        )

    def messages(self, count):
        return [self.got.get(timeout=5)[1] for _ in range(count)]

    def next_told(self):
        return self.told.get(timeout=5)


@pytest.fixture
def ends():
    made = []

    def make(air, *names):
        made.extend(End(air, name) for name in names)
        return made[-len(names) :]

    yield make
    for end in made:
        end.wire.close()


def sent(ends, count=200, **how):
    a, b = ends(Air(**how), "a", "b")
    for i in range(count):
        a.wire.send("b", MessageLane.CONTROL, i.to_bytes(4, "little"))
    time.sleep(0.05)
    return [int.from_bytes(b.got.get_nowait()[1], "little") for _ in range(b.got.qsize())]


def test_a_quiet_wire_keeps_the_order_and_names_the_sender(ends):
    a, b = ends(Air(), "a", "b")
    texts = [str(i).encode() for i in range(1000)]
    for text in texts:
        a.wire.send("b", MessageLane.BULK, text)
    assert [b.got.get(timeout=5) for _ in texts] == [("a", text) for text in texts]


def test_the_seed_decides_what_is_lost_and_repeated(ends):
    how = {"lose": 0.2, "repeat": 0.2}
    first, again, other = (sent(ends, seed=seed, **how) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) < 190
    assert len(first) > len(set(first))
    assert first == sorted(first)


def test_reordered_messages_all_come_in_another_order(ends):
    got = sent(ends, seed=3, reorder=0.3)
    assert got != sorted(got) == list(range(200))


def test_a_delay_delays_and_keeps_the_order(ends):
    a, b = ends(Air(seed=4, delay_s=(0.02, 0.04)), "a", "b")
    began = time.monotonic()
    for i in range(50):
        a.wire.send("b", MessageLane.CONTROL, bytes([i]))
    assert b.messages(50) == [bytes([i]) for i in range(50)]
    assert 0.02 <= time.monotonic() - began < 1


def test_a_wire_that_misbehaves_needs_a_seed():
    with pytest.raises(ValueError, match="expected a seed"):
        Air(lose=0.1)


def test_watchers_are_told_of_start_and_close(ends):
    air = Air()
    (a,) = ends(air, "a")
    a.wire.watch("b")
    (b,) = ends(air, "b")
    assert a.next_told() == ("b", True)
    b.wire.close()
    b.wire.close()
    assert a.next_told() == ("b", False)
    a.wire.send("b", MessageLane.CONTROL, b"lost")


def test_a_kill_is_told_at_once_and_the_name_is_free_again(ends):
    air = Air(lease_s=60)
    a, b = ends(air, "a", "b")
    a.wire.watch("b")
    assert a.next_told() == ("b", True)
    air.kill("b")
    assert a.next_told() == ("b", False)
    b.wire.send("a", MessageLane.CONTROL, b"of the dead")
    ends(air, "b")
    assert a.next_told() == ("b", True)
    assert a.got.empty()


def test_a_cut_is_told_to_both_after_the_lease(ends):
    air = Air(lease_s=0.05)
    a, b = ends(air, "a", "b")
    a.wire.watch("b"), b.wire.watch("a")
    assert (a.next_told(), b.next_told()) == (("b", True), ("a", True))
    began = time.monotonic()
    air.cut("b")
    a.wire.send("b", MessageLane.CONTROL, b"lost"), b.wire.send("a", MessageLane.CONTROL, b"lost")
    assert (a.next_told(), b.next_told()) == (("b", False), ("a", False))
    assert time.monotonic() - began >= 0.05
    air.heal("b")
    assert (a.next_told(), b.next_told()) == (("b", True), ("a", True))
    a.wire.send("b", MessageLane.CONTROL, b"after")
    assert b.messages(1) == [b"after"]
    assert a.got.empty()


def test_a_short_stop_loses_nothing_and_is_not_told(ends):
    air = Air(lease_s=5)
    a, b = ends(air, "a", "b")
    a.wire.watch("b")
    assert a.next_told() == ("b", True)
    air.stop("b")
    a.wire.send("b", MessageLane.CONTROL, b"to"), b.wire.send("a", MessageLane.CONTROL, b"from")
    time.sleep(0.05)
    assert b.got.empty()
    assert a.got.empty()
    air.go("b")
    assert b.messages(1) == [b"to"]
    assert a.messages(1) == [b"from"]
    assert a.told.empty()


def test_a_long_stop_ends_the_links(ends):
    air = Air(lease_s=0.03)
    a, b = ends(air, "a", "b")
    a.wire.watch("b"), b.wire.watch("a")
    assert (a.next_told(), b.next_told()) == (("b", True), ("a", True))
    air.stop("b")
    a.wire.send("b", MessageLane.CONTROL, b"lost")
    assert a.next_told() == ("b", False)
    air.go("b")
    assert a.next_told() == ("b", True)
    assert [b.next_told(), b.next_told()] == [("a", False), ("a", True)]
    assert b.got.empty()


def test_control_overtakes_bulk(ends):
    air = Air()
    a, b = ends(air, "a", "b")
    air.stop("a")  # so that all of it is sent at once
    with air._lock:
        for _ in range(100):
            a.wire.send("b", MessageLane.BULK, b"bulk")
        a.wire.send("b", MessageLane.CONTROL, b"control")
        air._ends["a"].stopped = False
    assert b"control" in b.messages(32)


@pytest.mark.parametrize("name", ["", "a/b", "a*", "$a", "a?", "#", "a b", "ä", "x" * 65])
def test_a_name_that_no_key_can_hold_is_refused(name):
    with pytest.raises(ValueError, match="expected a name"):
        Air().endpoint(name)


def test_two_of_one_name_and_a_message_too_long_are_refused(ends):
    air = Air()
    (a,) = ends(air, "a")
    with pytest.raises(Refused, match="expected one node of each name, got a second 'a'"):
        End(air, "a")
    with pytest.raises(ValueError, match=f"expected at most {MOST_NBYTES} bytes"):
        a.wire.send("b", MessageLane.BULK, bytes(MOST_NBYTES + 1))
