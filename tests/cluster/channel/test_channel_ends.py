"""Silence, restarts, ends and refusals are reported once and in time.

When this fails, a client waits for ever for a node that is gone.
"""

from __future__ import annotations

import os
import threading
import time

import pytest
from air_endpoints import wired
from cluster_kit import NODE, answerer, caller

from sparkle_drv.cluster.channel import channel
from sparkle_drv.cluster.channel.credit import BULK, TOTAL, Credit
from sparkle_drv.cluster.channel.endpoint import Endpoint
from sparkle_drv.cluster.channel.stream import WINDOW
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport.air import Air
from sparkle_drv.cluster.wire.frame import Kind, hello
from sparkle_drv.cluster.wire.seal import Sealer
from sparkle_drv.cluster.wire.values import pack


def test_an_end_is_told_with_its_words():
    with wired() as wire:
        wire.other.end("the quota is used up")
        assert wire.until(lambda: len(wire.lost) == 2)
        assert sorted(wire.lost) == [
            ("client", "the quota is used up"),
            ("node", "the quota is used up"),
        ]
        wire.channel.post("late")
        wire.channel.flush()  # nothing happens


def test_silence_is_told_at_both_ends():
    with wired(silence_s=0.5, air=Air(lease_s=60)) as wire:
        begin = time.monotonic()
        wire.air.cut("client")
        assert wire.until(lambda: len(wire.lost) == 2, 5)
        assert 0.3 < time.monotonic() - begin < 3
        assert all("no word for" in words for _, words in wire.lost)


def test_a_lease_that_ends_is_told_before_the_silence():
    with wired() as wire:
        wire.air.kill(NODE)
        assert wire.until(lambda: wire.lost, 1)
        assert wire.lost[0] == ("client", f"{NODE} is gone")


def test_idle_sessions_live(monkeypatch):
    monkeypatch.setattr(channel, "PING_S", 0.1)
    with wired(silence_s=1.0) as wire:
        time.sleep(1.3)
        assert not wire.lost


def test_a_node_that_was_started_anew_is_another_one():
    """Its new process knows no old session, whose epoch is not its own: the client is told."""
    air = Air(lease_s=60)
    with wired(air=air) as wire:
        end = wire.node.transport
        wire.node.transport.close = lambda: None
        wire.node._channels.clear()
        assert end is wire.node.transport
        begin = time.monotonic()
        wire.channel.post("for the old one")
        wire.channel.flush()
        assert wire.until(lambda: wire.lost, 5)
        assert time.monotonic() - begin < 2
        ((who, words),) = wire.lost
        assert who == "client"
        assert words.startswith("it does not know this session: it was started anew")
        assert not wire.got


def test_a_peer_is_watched_as_long_as_it_has_a_session():
    with wired() as wire:
        watched = wire.node.transport.watched
        peer = wire.client.transport.name
        assert peer in watched
        wire.channel.end("closed")
        assert wire.until(lambda: peer not in watched, 5)


def test_a_forged_word_of_a_restart_ends_nothing():
    with wired() as wire:
        forged = hello(wire.channel.keys.session, pack({"step": "unknown", "body": {}}))
        for _ in range(8):
            wire.client._received("somebody", forged)
            time.sleep(0.05)
        wire.channel.post("still here")
        assert wire.until(lambda: wire.got == ["still here"])
        assert not wire.lost


def test_forged_and_replayed_frames_change_nothing():
    with wired() as wire:
        sent = []
        give = wire.channel._give
        wire.channel._give = lambda lane, frame: (sent.append(frame), give(lane, frame))
        wire.channel.post("once")
        wire.channel.flush()
        assert wire.until(lambda: wire.got)
        for frame in sent * 3:
            wire.node._received("client", frame)
        forger = Sealer(os.urandom(32), wire.channel.keys.session, wire.channel.keys.epoch)
        wire.node._received("client", forger.frame(Kind.END, 0, (), b"forged"))
        wire.channel.post("twice")
        assert wire.until(lambda: len(wire.got) == 2)
        assert wire.got == ["once", "twice"]
        assert not wire.lost


def test_nobody_of_that_name():
    client = Endpoint(Air().endpoint("client"), rto_s=0.05)
    try:
        with pytest.raises(Refused, match="box9: nobody of that name answers"):
            client.connect("box9", caller(), timeout_s=0.3)
    finally:
        client.close()


@pytest.mark.parametrize("seed", range(8))
def test_handshakes_survive_the_wire(seed):
    with wired(seed) as wire:
        assert len(wire.others) == 1, "one handshake began two sessions"


class Unwilling:
    """A node that refuses, as trust/handshake.py does."""

    def __init__(self, step):
        self._step, self._real = step, answerer()

    def welcome(self, hello):
        if self._step == "welcome":
            raise Refused("the manifest is another one")
        return self._real.welcome(hello)

    def admit(self, pending, proof):
        raise Refused("the signature does not fit")


@pytest.mark.parametrize(
    ("step", "said"), [("welcome", "the manifest is another one"), ("admit", "signature does not")]
)
def test_refusals_are_told_by_their_words(step, said):
    air = Air()
    node = Endpoint(air.endpoint(NODE), answerer=Unwilling(step), accept=lambda channel: None)
    client = Endpoint(air.endpoint("client"), rto_s=0.05)
    try:
        begin = time.monotonic()
        with pytest.raises(Refused, match=f"{NODE}: .*{said}"):
            client.connect(NODE, caller(), timeout_s=5)
        assert time.monotonic() - begin < 3
    finally:
        client.close()
        node.close()


def test_a_node_without_room_says_so():
    air = Air()
    node = Endpoint(
        air.endpoint(NODE), answerer=answerer(), accept=lambda channel: None,
        credit=Credit(WINDOW + BULK),
    )  # fmt: skip
    client = Endpoint(air.endpoint("client"), rto_s=0.05)
    try:
        client.connect(NODE, caller(), timeout_s=5)
        with pytest.raises(Refused, match="no room for another session"):
            client.connect(NODE, caller(), timeout_s=5)
    finally:
        client.close()
        node.close()


def test_a_proof_begins_one_session_also_when_the_node_refuses_it():
    """A second channel under the same keys would number its frames, and seal them, as the first."""
    air, begun = Air(), []

    def accept(channel):
        begun.append(channel)
        raise Refused("the node is full")

    node = Endpoint(air.endpoint(NODE), answerer=answerer(), accept=accept)
    client = Endpoint(air.endpoint("client"), rto_s=0.05)
    sent, give = [], client._hello
    client._hello = lambda *hello: (sent.append(hello), give(*hello))
    try:
        with pytest.raises(Refused, match="the node is full"):
            client.connect(NODE, caller(), timeout_s=5)
        for hello in sent * 3:
            give(*hello)
        time.sleep(0.3)
        assert len(begun) == 1
        assert client.credit.left == TOTAL
    finally:
        client.close()
        node.close()


def test_threads_end_with_their_endpoint():
    before = set(threading.enumerate())
    with wired():
        pass
    end = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < end:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before
