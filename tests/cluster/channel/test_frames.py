"""Frames that are damaged, forged or replayed do not count, and sealed payloads cannot be read.

When this fails, an attacker on the network changes or reads what a session sends.
"""

from __future__ import annotations

import os
import random

import pytest

from sparkle_drv.cluster.wire.frame import MOST_HEAD, Frame, Head, Kind, Seal, encode
from sparkle_drv.cluster.wire.requests import NEWS, REQUESTS, parse_item, request
from sparkle_drv.cluster.wire.values import Damaged, Field, checked, pack, unpack

KEY = bytes(range(32))
SESSION = b"s" * 16
HEADS = [
    Head(Kind.DATA, SESSION, 7, 1, 0, (3,)),
    Head(Kind.ACK, SESSION, 7, 2, 5),
    Head(Kind.CHUNK, SESSION, 7, 3, 5, (9, 4)),
    Head(Kind.GRANT, SESSION, 7, 4, 5, (9, -1, [1, 2])),
    Head(Kind.END, SESSION, 7, 5, 5),
]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind.name)
def test_a_frame_comes_back(head, sealed):
    seal = Seal(KEY) if sealed else None
    data = encode(head, b"payload", KEY, seal)
    assert (b"payload" in data) is not sealed
    frame = Frame(data)
    frame.prove(KEY, seal)
    assert frame.head == head
    assert bytes(frame.payload) == b"payload"


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind.name)
def test_a_forged_frame_is_refused(head):
    data = encode(head, b"payload", os.urandom(32), None)
    with pytest.raises(Damaged, match="MAC"):
        Frame(data).prove(KEY, None)


def test_every_byte_of_a_control_frame_counts():
    data = encode(HEADS[0], b"payload", KEY, None)
    for at in range(len(data)):
        for bit in (1, 0x80):
            changed = bytearray(data)
            changed[at] ^= bit
            with pytest.raises(Damaged):
                Frame(bytes(changed)).prove(KEY, None)


def test_of_a_chunk_the_head_counts_and_sealed_the_payload_too():
    data = bytearray(encode(HEADS[2], b"payload", KEY, None))
    data[-1] ^= 1
    Frame(bytes(data)).prove(KEY, None)  # TLS answers for payloads of one hop, sealing for more
    data = bytearray(encode(HEADS[2], b"payload", KEY, Seal(KEY)))
    data[-1] ^= 1
    with pytest.raises(Damaged, match="encrypted by this session"):
        Frame(bytes(data)).prove(KEY, Seal(KEY))


def test_a_sealed_payload_fits_its_own_head_alone():
    one, two = (encode(head, b"payload", KEY, Seal(KEY)) for head in HEADS[:2])
    payload = len(b"payload") + 16
    with pytest.raises(Damaged):
        Frame(one[:-payload] + two[-payload:]).prove(KEY, Seal(KEY))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "at least"),
        (b"SPK1", "at least"),
        (b"HTTP" + bytes(40), "SPK1"),
        (b"SPK1" + (MOST_HEAD + 1).to_bytes(4, "little") + bytes(2000), "expected a head within"),
        (b"SPK1" + (200).to_bytes(4, "little") + bytes(40), "expected a head within"),
        (b"SPK1" + (1).to_bytes(4, "little") + b"\xc1" + bytes(16), "msgpack"),
    ],
)
def test_what_is_no_frame(data, said):
    with pytest.raises(Damaged, match=said):
        Frame(data)


@pytest.mark.parametrize(
    "head",
    [
        [],
        {},
        [99, SESSION, 7, 1, 0],
        [True, SESSION, 7, 1, 0],
        [2, b"short", 7, 1, 0],
        [2, SESSION, -1, 1, 0],
        [2, SESSION, 7, 2**63, 0],
        [2, SESSION, 7, 1, "0"],
        [2, SESSION, 7, 1, 0, 1],
        [1, SESSION, 7, 1, 0],
        [1, SESSION, 7, 1, 0, [3]],
        [4, SESSION, 7, 1, 0, 9, -1, 3],
        [4, SESSION, 7, 1, 0, 9, -1, [-2]],
        [4, SESSION, 7, 1, 0, 9, [], [1]],
        [3, SESSION, 7, 1, 0, 9, 2.0],
    ],
    ids=str,
)
def test_heads_that_are_none(head):
    raw = pack(head)
    with pytest.raises(Damaged):
        Frame(b"SPK1" + len(raw).to_bytes(4, "little") + raw + bytes(16))


def test_mutated_frames_are_damaged_and_nothing_else():
    chance = random.Random(5)
    frames = [encode(head, pack([{"do": "bye", "re": 1}]), KEY, None) for head in HEADS]
    for _ in range(4000):
        data = bytearray(chance.choice(frames))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        data = data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data
        try:
            Frame(bytes(data)).prove(KEY, None)
        except Damaged:
            continue
        assert bytes(data) in frames or data[4:8] == frames[2][4:8]  # a chunk's payload


def test_values_have_limits():
    assert unpack(pack({"a": [1, b"2", "3", None, 0.5]}), 100) == {"a": [1, b"2", "3", None, 0.5]}
    for data in (
        pack([0] * 50),
        b"\xc7\x01\x05\x00",
        b"\xdf\xff\xff\xff\xff",
        pack({1: 2}),
        b"\x01\x02",
    ):
        with pytest.raises(Damaged):
            unpack(data, 40)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "expected a mapping, got list"),
        ({}, "expected the field n, got none"),
        ({"n": "1"}, "n: expected int, got str"),
        ({"n": True}, "n: expected int, got bool"),
        ({"n": 9}, "n: expected 0 to 8, got 9"),
        ({"n": 1, "more": 2}, "expected known fields, got 'more'"),
        ({"n": 1, "t": "x" * 9}, "t: expected a length of 0 to 8, got 9"),
    ],
)
def test_fields_are_checked_by_name(given, said):
    fields = {"n": Field(int, 0, 8), "t": Field(str, 0, 8, optional=True)}
    with pytest.raises(Damaged, match=said):
        checked(given, fields, "thing")


@pytest.mark.parametrize("item", [3, [], {}, {"do": 1}, {"do": "fork"}, {"do": "bye", "re": -1}])
def test_what_is_no_request(item):
    with pytest.raises(Damaged):
        request(item)


def test_every_request_and_news_wants_its_fields():
    for name, fields in REQUESTS.items():
        if fields:
            with pytest.raises(Damaged, match=f"{name}: expected the field .*, got none"):
                request({"do": name})
    for name in NEWS:
        with pytest.raises(Damaged, match=f"{name}: expected the field .*, got none"):
            parse_item({"on": name})
    with pytest.raises(Damaged):
        parse_item({"on": "nothing"})
