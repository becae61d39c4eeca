"""Bytes of a stranger that are no frame, no value or no request are refused by a typed error.

When this fails, a stranger's message ends a node or a client. `test_seal.py` has forged frames.
"""

from __future__ import annotations

import pytest

from sparkle_drv.cluster.wire.frame import MOST_HEAD, Frame
from sparkle_drv.cluster.wire.requests import NEWS, REQUESTS, parse_item, request
from sparkle_drv.cluster.wire.values import Damaged, WireField, checked, pack, unpack

SESSION = b"s" * 16


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "at least"),
        (b"SPK2", "at least"),
        (b"HTTP" + bytes(40), "SPK2"),
        (b"SPK2" + (MOST_HEAD + 1).to_bytes(4, "little") + bytes(2000), "expected a head within"),
        (b"SPK2" + (200).to_bytes(4, "little") + bytes(40), "expected a head within"),
        (b"SPK2" + (1).to_bytes(4, "little") + b"\xc1" + bytes(16), "msgpack"),
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
        Frame(b"SPK2" + len(raw).to_bytes(4, "little") + raw + bytes(16))


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
    fields = {"n": WireField(int, 0, 8), "t": WireField(str, 0, 8, optional=True)}
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
