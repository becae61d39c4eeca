"""Frames of a session that were forged, altered, repeated or moved are refused; nonces never come
again.

When this fails, another client or a router reads or changes the data of a user.
"""

from __future__ import annotations

import os
import random
import struct
import threading

import pytest
from air_endpoints import wired

from sparkle_drv.cluster.channel.bulk import CHUNK
from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.channel.credit import Credit
from sparkle_drv.cluster.transport.base import MessageLane
from sparkle_drv.cluster.trust.keys import Keys
from sparkle_drv.cluster.wire.frame import MOST_NUMBER, Frame, Head, Kind, opening
from sparkle_drv.cluster.wire.seal import SPAN, TAG_NBYTES, Opener, Sealer
from sparkle_drv.cluster.wire.values import Damaged
from sparkle_drv.errors import DeviceLost

SESSION, EPOCH = b"s" * 16, 7
PAYLOAD = b"payload of a session"
KINDS = [
    (Kind.DATA, (3,)), (Kind.ACK, ()), (Kind.CHUNK, (9, 4)), (Kind.GRANT, (9, -1, [1, 2])),
    (Kind.END, ()), (Kind.PING, ()),
]  # fmt: skip


def direction(session=SESSION):
    """The two ends of one direction of a session."""
    key = os.urandom(32)
    return Sealer(key, session, EPOCH), Opener(key)


def opened(opener, data):
    """The payload; None for a repeated frame. Raises Damaged for a forged one."""
    frame = Frame(bytes(data))
    return bytes(frame.payload) if opener.open(frame) else None


def refused(opener, data):
    try:
        return opened(opener, data) is None
    except Damaged:
        return True


@pytest.mark.parametrize("payload", [b"", b"x", PAYLOAD, bytes(range(256)) * 1024])
@pytest.mark.parametrize(("kind", "more"), KINDS, ids=lambda value: getattr(value, "name", ""))
def test_a_frame_comes_back_and_shows_no_payload(kind, more, payload):
    sealer, opener = direction()
    data = sealer.frame(kind, 5, more, payload)
    assert len(payload) < 4 or payload not in data
    assert Frame(data).head == Head(kind, SESSION, EPOCH, 1, 5, more)
    assert opened(opener, data) == payload


def test_every_bit_of_a_frame_counts():
    sealer, opener = direction()
    data = sealer.frame(Kind.CHUNK, 0, (9, 4), PAYLOAD)
    for at in range(len(data)):
        for bit in range(8):
            data[at] ^= 1 << bit
            assert refused(opener, data)
            data[at] ^= 1 << bit
    assert opened(opener, data) == PAYLOAD


def with_head(data, **changed):
    """The frame with other fields in its head."""
    frame = Frame(bytes(data))
    return opening(frame.head._replace(**changed)) + bytes(frame.payload)


class Attacker:
    """Makes altered frames of what it has seen: two sessions with both directions each."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.ends = [direction(session) for session in (SESSION, SESSION, b"t" * 16, b"t" * 16)]
        self.seen = [
            [sealer.frame(Kind.CHUNK, 0, (transfer, index), os.urandom(64))
             for transfer in range(4) for index in range(8)]
            for sealer, _ in self.ends
        ]  # fmt: skip

    def flip(self, data):
        """A bit, or up to four bytes: of the head, the data or the tag."""
        for _ in range(self.chance.randint(1, 4)):
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        return data

    def tag(self, data):
        data[-TAG_NBYTES:] = os.urandom(TAG_NBYTES)
        return data

    def data(self, data):
        """What `tamper.py` does: other data, the head and the length as they were."""
        begin = len(Frame(bytes(data)).opening)
        data[begin:-TAG_NBYTES] = os.urandom(len(data) - begin - TAG_NBYTES)
        return data

    def shorter(self, data):
        return data[: self.chance.randrange(len(data))]

    def longer(self, data):
        return data + os.urandom(self.chance.randint(1, 40))

    def number(self, data):
        return with_head(data, number=self.chance.randrange(MOST_NUMBER))

    def place(self, data):
        return with_head(data, more=(self.chance.randrange(9), self.chance.randrange(9, 99)))

    def kind(self, data):
        return with_head(data, kind=Kind.DATA, more=(0,))

    def spliced(self, data):
        """The head of one frame, the payload and tag of another one of this direction."""
        other = self.chance.choice([f for f in self.seen[0] if f != data])
        return Frame(bytes(data)).opening + bytes(Frame(bytes(other)).payload)

    def elsewhere(self, data):
        """A whole frame of another direction or session, which names this session."""
        other = self.chance.choice(self.seen[self.chance.randrange(1, 4)])
        return with_head(other, session=SESSION)

    def forged(self, data):
        """By a key of one's own."""
        head = Frame(bytes(data)).head
        return Sealer(os.urandom(32), SESSION, EPOCH).frame(Kind.CHUNK, 0, head.more, PAYLOAD)


ATTACKS = [
    Attacker.flip, Attacker.tag, Attacker.data, Attacker.shorter, Attacker.longer, Attacker.number,
    Attacker.place, Attacker.kind, Attacker.spliced, Attacker.elsewhere, Attacker.forged,
]  # fmt: skip


def test_10000_forged_or_altered_chunks_are_refused():
    attacker = Attacker(1)
    opener, good = attacker.ends[0][1], attacker.seen[0]
    for count in range(10_000):
        data = attacker.chance.choice(good)
        bad = ATTACKS[count % len(ATTACKS)](attacker, bytearray(data))
        if bytes(bad) != data:  # two flips may meet in one bit
            assert refused(opener, bad), ATTACKS[count % len(ATTACKS)]
    assert all(opened(opener, data) is not None for data in good)
    assert all(opened(opener, data) is None for data in good)  # once only


def test_chunks_that_others_alter_on_their_way_change_no_transfer():
    """Each chunk comes altered before it comes as it was, and is repeated after it."""
    chance = random.Random(2)
    with wired() as wire:
        deliver = wire.node._received

        def altered(sender, data):
            if Frame(data).head.kind is not Kind.CHUNK:
                return deliver(sender, data)
            bad = bytearray(data)
            bad[len(bad) // 2] ^= 1 << chance.randrange(8)
            for each in (bad, data[:-9], data, data):
                deliver(sender, bytes(each))

        wire.node.transport.receive = altered
        sent, into, done = chance.randbytes(3 * CHUNK + 999), bytearray(3 * CHUNK + 999), []
        wire.other.expect(1, memoryview(into), lambda: done.append(1))
        wire.channel.send_bulk(1, memoryview(sent))
        assert wire.until(lambda: done)
        assert into == sent
        assert not wire.lost


def test_repeated_frames_by_a_model():
    """Frames come in any order and several times: each is opened once, if it is not too old."""
    chance, (sealer, opener) = random.Random(3), direction()
    frames = [sealer.frame(Kind.ACK, 0, (), b"") for _ in range(3 * SPAN)]
    used, last = set(), 0
    for _ in range(6 * SPAN):
        ahead = chance.choice((chance.randint(1, 4), -chance.randint(0, SPAN + 50)))
        number = min(len(frames), max(1, last + ahead))
        fresh = number not in used and number > last - SPAN
        assert (opened(opener, frames[number - 1]) is not None) is fresh
        if fresh:
            used.add(number)
            last = max(last, number)
    assert last == len(frames)


def test_chunks_and_other_frames_count_apart():
    """A chunk that waits long in a link is not too old because of thousands of small frames."""
    sealer, opener = direction()
    chunk = sealer.frame(Kind.CHUNK, 0, (1, 0), PAYLOAD)
    for _ in range(SPAN + 1):
        opened(opener, sealer.frame(Kind.ACK, 0, (), b""))
    assert opened(opener, chunk) == PAYLOAD


def test_no_nonce_comes_again():
    """Many threads, and two channels of one session, as a repeated proof might make."""
    keys = Keys(SESSION, EPOCH, *direction())
    frames = []

    def send(lane, frame):
        frames.append(Frame(frame).head)

    channels = [
        Channel(keys, send=send, credit=Credit().admit(""), urge=lambda: None, bulk=lambda *_: None,
                now=0.0, rto_s=1.0)
        for _ in range(2)
    ]  # fmt: skip

    def work(channel):
        for transfer in range(300):
            channel.send_bulk(transfer, memoryview(PAYLOAD))
            channel._granted(transfer, 1, [])
            channel._give(MessageLane.BULK, channel.chunk_frame(transfer, 0))
            channel._extend(transfer)

    threads = [threading.Thread(target=work, args=(channel,)) for channel in channels * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    nonces = [(head.kind is Kind.CHUNK, head.number) for head in frames]
    assert len(nonces) == len(set(nonces)) == 4 * 300 * 2


def test_a_number_that_a_nonce_cannot_hold():
    sealer, _ = direction()
    sealer._numbers[True] = 2**64 - 1
    with pytest.raises((struct.error, OverflowError)):
        sealer.frame(Kind.CHUNK, 0, (1, 0), PAYLOAD)


def test_a_fork_seals_nothing():
    """It has a copy of the count: a frame of its own would have the nonce of another one."""
    sealer, opener = direction()
    child = os.fork()
    if not child:
        try:
            sealer.frame(Kind.ACK, 0, (), b"")
        except DeviceLost:
            os._exit(5)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert opened(opener, sealer.frame(Kind.ACK, 0, (), b"")) == b""
