"""Lines that strangers cause are limited, and counted.

When this fails, forged messages fill the log of a node, and its disk.
"""

from __future__ import annotations

import itertools
import logging

import pytest
from air_endpoints import wired

from sparkle_drv.cluster import few_lines
from sparkle_drv.cluster.few_lines import EVERY_S, MOST_LINES, MOST_SOURCES, FewLines
from sparkle_drv.cluster.transport.base import MessageLane
from sparkle_drv.cluster.wire.frame import Head, Kind, hello, opening
from sparkle_drv.cluster.wire.seal import TAG_NBYTES

log = logging.getLogger("sparkle_drv.cluster")


class Clock:
    """Time, and what was planned for later."""

    def __init__(self):
        self.now, self.planned = 0.0, []

    def __call__(self):
        return self.now

    def later(self, delay_s, action):
        self.planned.append((self.now + delay_s, action))

    def pass_s(self, seconds):
        self.now += seconds
        due = [action for at, action in self.planned if at <= self.now]
        self.planned = [(at, action) for at, action in self.planned if at > self.now]
        for action in due:
            action()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def said():
    return []


@pytest.fixture
def say(clock, said):
    return FewLines(said.append, clock=clock, later=clock.later)


def test_a_flood_of_lines_becomes_a_count(clock, said, say):
    for n in range(10_000):
        say(f"mallory: refused: {n}")
    assert said == [f"mallory: refused: {n}" for n in range(MOST_LINES)]
    assert len(clock.planned) == 1
    clock.pass_s(EVERY_S)
    assert said[MOST_LINES:] == [f"mallory: {10_000 - MOST_LINES} more lines dropped"]
    say("mallory: begins")
    assert said[-1] == "mallory: begins"
    clock.pass_s(10 * EVERY_S)
    assert not clock.planned
    assert said[-1] == "mallory: begins"


def test_one_source_does_not_silence_another(said, say):
    for n in range(1000):
        say(f"mallory: refused: {n}")
    say("alice: begins")
    assert said[-1] == "alice: begins"


def test_many_sources_take_no_memory(clock, said, say):
    for n in range(10 * MOST_SOURCES):
        for _ in range(3):
            say(f"{n}: x")
    assert len(say._counts) <= MOST_SOURCES + 1
    assert len(said) <= 3 * MOST_SOURCES + MOST_LINES
    clock.pass_s(EVERY_S)
    total = sum(int(line.split()[2]) for line in said if line.endswith("lines dropped"))
    passed = sum(line.endswith(": x") for line in said)
    assert total + passed == 30 * MOST_SOURCES


def forged(channel):
    """Messages that a stranger sends, with no end."""
    head = Head(Kind.PING, channel.keys.session, channel.keys.epoch, 1 << 40, 0)
    for n in itertools.count():
        yield opening(head) + n.to_bytes(8, "little") + bytes(TAG_NBYTES)  # a wrong tag
        yield b"SPK1" + n.to_bytes(8, "little") * 4  # not a frame
        yield hello(n.to_bytes(16, "little"), b"\xc1")  # not a handshake


def test_forged_messages_fill_neither_the_log_nor_memory(caplog, monkeypatch):
    monkeypatch.setattr(few_lines, "EVERY_S", 3600.0)
    (limit,) = [filt for filt in log.filters if isinstance(filt, few_lines.FewRecords)]
    limit._few._counts.clear()
    with wired() as wire:
        transport = wire.client.transport
        for message in itertools.islice(forged(wire.channel), 3000):
            transport.send(wire.node.transport.name, MessageLane.CONTROL, message)
        wire.channel.post("after")
        wire.channel.flush()
        assert wire.until(lambda: wire.got == ["after"])
        assert len(wire.node._pending) <= 64
    sources = {record.getMessage().partition(":")[0] for record in caplog.records}
    assert 0 < len(caplog.records) <= MOST_LINES * len(sources)
    assert len(sources) <= 3
