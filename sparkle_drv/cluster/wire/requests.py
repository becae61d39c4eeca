"""The messages of both ends of a session: items of the ordered stream, with fields and limits.

A client's item is a *request*: {"do": name, "re": number, ...fields}. `re` is the number of the
reply that the client expects, 0 for none. A node's item is a reply, {"re": number, "ok": {...}} or
{"re": number, "error": kind, "words": text}, or *news*: {"on": name, ...fields}.

Requests run in order. Requests of one queue (`QUEUED`) run one after another, in parallel to those
of other queues. The client chooses the numbers of queues, prepared launches and transfers. The node
chooses addresses and the numbers of kernels. All numbers and addresses belong to one session. A
`value` is a point of a queue's timeline: the first submission has value 1, the next one 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkle_drv.cluster.wire.values import Damaged, WireField, checked

INLINE = 32 << 10
"""Bytes that travel within an item at most; more goes as a transfer."""
MOST_RECORDS = 16 << 20
"""Bytes of records of one submission at most."""
MOST_RUNS = 256
"""Launches of one `run` at most. 100 launches and a wait take 5 ms, with an item each 8 to 10 ms
(benchmarks/cluster.py, row `hundred device`)."""
MOST_IMAGE = 64 << 20
"""Bytes of a user's image at most."""
MOST_WORDS = 2000
"""Characters of a text for people at most."""

_NUMBER = WireField(int)
_ID = WireField(int, 1, 2**53)
_NBYTES = WireField(int, 0, 2**62)
_NAME = WireField(str, 1, 256)
_BYTES = WireField((bytes, type(None)), 0, INLINE)
_FLAG = WireField(bool)
_TRANSFER = WireField(
    int, 0, 2**53
)  # the number of a bulk transfer, or 0 if the item has the bytes

REQUESTS: Mapping[str, Mapping[str, WireField]] = {
    # The first request of a session, sent once. The reply's `ok` is {"info": DeviceInfo as a
    # mapping, "kernels": [names], "clock": whether the device has a clock, "most": the quotas by
    # name}.
    "open": {
        "device": _NAME, "threads": WireField(int, 0, 1024), "deterministic": _FLAG,
        "isa": WireField(str, 0, 16),
    },
    "alloc": {"nbytes": _NBYTES, "memory": WireField(str, 4, 6)},  # reply: `ok` is {"address": int}
    "free": {"address": _NUMBER},
    # Loads a kernel of the manifest by `name`, or an image by its `transfer`, `entry` and `args`.
    # `plan` is a TilePlan as a mapping. The reply's `ok` is {"kernel": int, "form", "resources":
    # mapping, "groups": [texts], "group_size": [x, y, z] or None}.
    "load": {
        "name": _NAME, "entry": WireField(str, 0, 256), "args": WireField(list, 0, 64),
        "plan": WireField((dict, type(None)), 0, 32), "transfer": _TRANSFER,
        "nbytes": WireField(int, 0, MOST_IMAGE), "suffix": WireField(str, 0, 16), "spirv": _FLAG,
    },
    "unload": {"kernel": _ID},
    "queue": {"queue": _ID, "timing": _FLAG},
    # Work given to the queue before still runs. The reply is sent once that work has ended.
    "close_queue": {"queue": _ID},
    # Command records as in sp_cmd.h, with the session's own addresses, kernels and queue numbers.
    "submit": {
        "queue": _ID, "value": _ID, "records": _BYTES, "transfer": _TRANSFER,
        "nbytes": WireField(int, 0, MOST_RECORDS),
    },
    # One dispatch record, which the node keeps under the number `prepared`. The request "run"
    # launches this record several times: once for each value after the queue's last one, up to the
    # request's `value`.
    "prepare": {"prepared": _ID, "record": WireField(bytes, 8, INLINE)},
    "forget": {"prepared": _ID},
    "run": {"queue": _ID, "value": _ID, "prepared": _ID},
    "write": {
        "queue": _ID, "value": _ID, "address": _NUMBER, "data": _BYTES, "transfer": _TRANSFER,
        "nbytes": _NBYTES,
    },
    # Up to INLINE bytes arrive in the news "bytes". More bytes arrive as a transfer with the number
    # `transfer`, after the news "ready".
    "read": {
        "queue": _ID, "value": _ID, "address": _NUMBER, "nbytes": _NBYTES, "transfer": _ID,
    },
    "ask": {"queue": _ID},  # the node then sends the news "timeline" again
    "timestamp": {},  # reply: `ok` is {"ns": int}
    "sensors": {},  # reply: `ok` is {"sensors": {name: float}}
    "counts": {},  # reply: `ok` is {"counts": {name: int}}, what the session holds at the node
    # The reply's `ok` is {"grant": mapping}, see trust/renewal.py.
    "renew": {"request": WireField(dict, 1, 16)},
    "granted": {"grant": WireField(dict, 1, 16)},  # answers the node's news "renew"
    "bye": {},  # the last request; the reply is sent once the node has released everything
}  # fmt: skip
QUEUED = frozenset({"submit", "run", "write", "read", "close_queue"})

NEWS: Mapping[str, Mapping[str, WireField]] = {
    # How far a queue has come. Items of `faults` are [value, errno, words], and items of `times`
    # are [value, start, end]. A report has only items that no earlier report had.
    "timeline": {
        "queue": _ID, "reached": _NUMBER, "faults": WireField(list, 0, 1024),
        "times": WireField(list, 0, 4096),
    },
    "bytes": {"transfer": _ID, "data": WireField(bytes, 0, INLINE)},
    "ready": {"transfer": _ID},
    # The node asks for a new certificate. Only a client that has the CA's key can make one.
    "renew": {"request": WireField(dict, 1, 16)},
    # The device is lost, but the session continues.
    "lost": {"words": WireField(str, 0, MOST_WORDS)},
}  # fmt: skip

ERRORS = (
    "ValueError", "TypeError", "ImageError", "OutOfDeviceMemory", "DeviceLost", "DeviceNotFound",
    "NotImplementedError", "Refused", "SparkleError",
)  # fmt: skip
"""Kinds of errors that a reply may name; all others become "SparkleError"."""

_REPLY = {
    "re": _ID, "ok": WireField(dict, 0, 64, optional=True),
    "error": WireField(str, 1, 64, optional=True),
    "words": WireField(str, 0, MOST_WORDS, optional=True),
}  # fmt: skip


def request(item: Any) -> tuple[str, int, dict[str, Any]]:
    """Parses a client's item. Returns (name, reply number, fields). Raises Damaged for an item that
    is no request.
    """
    name = item.get("do") if type(item) is dict else None
    fields = REQUESTS.get(name) if type(name) is str else None
    if fields is None:
        raise Damaged(f"do: expected the name of a request, got {str(name)[:40]!r}")
    reply = item.get("re", 0)
    if type(reply) is not int or not 0 <= reply <= 2**53:
        raise Damaged(f"{name}: re: expected a number, got {str(reply)[:40]!r}")
    given = {key: value for key, value in item.items() if key not in ("do", "re")}
    return str(name), reply, checked(given, fields, str(name))


def parse_item(item: Any) -> tuple[str, dict[str, Any]]:
    """Parses a node's item. Returns ("", reply) or (name of news, fields). Raises Damaged for an
    item that is neither.
    """
    if type(item) is dict and "on" in item:
        fields = NEWS.get(item["on"]) if type(item["on"]) is str else None
        if fields is None:
            raise Damaged(f"on: expected the name of news, got {str(item['on'])[:40]!r}")
        given = {key: value for key, value in item.items() if key != "on"}
        return item["on"], checked(given, fields, item["on"])
    return "", checked(item, _REPLY, "reply")
