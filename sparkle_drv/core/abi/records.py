"""Command records as bytes: the Python side of native/include/sp_cmd.h.

Encode and decode stand side by side; tests/core/test_records.py compares every format with
offsetof() of the C structs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sparkle_drv._native import lib

DISPATCH, COPY, FILL = lib.SP_CMD_DISPATCH, lib.SP_CMD_COPY, lib.SP_CMD_FILL
BARRIER, WAIT, TIMESTAMP = lib.SP_CMD_BARRIER, lib.SP_CMD_WAIT, lib.SP_CMD_TIMESTAMP

HEAD = struct.Struct("=II")
DISPATCH_HEAD = struct.Struct("=IIQ8I")
_COPY = struct.Struct("=IIQQQ")
_FILL = struct.Struct("=IIQQII")
_WAIT = struct.Struct("=IIQQ")
_TIMESTAMP = struct.Struct("=IIQ")
_BODIES = {COPY: _COPY, FILL: _FILL, BARRIER: HEAD, WAIT: _WAIT, TIMESTAMP: _TIMESTAMP}

NAMES = {
    DISPATCH: "dispatch",
    COPY: "copy",
    FILL: "fill",
    BARRIER: "barrier",
    WAIT: "wait",
    TIMESTAMP: "timestamp",
}


def copy(dst: int, src: int, nbytes: int) -> bytes:
    return _COPY.pack(COPY, _COPY.size, dst, src, nbytes)


def fill(dst: int, nbytes: int, pattern: int, pattern_nbytes: int) -> bytes:
    return _FILL.pack(FILL, _FILL.size, dst, nbytes, pattern, pattern_nbytes)


def barrier() -> bytes:
    return HEAD.pack(BARRIER, HEAD.size)


def wait(queue: int, value: int) -> bytes:
    return _WAIT.pack(WAIT, _WAIT.size, queue, value)


def timestamp(slot: int) -> bytes:
    return _TIMESTAMP.pack(TIMESTAMP, _TIMESTAMP.size, slot)


def split(records: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(offset, kind, record) of each; stops at the first that is cut off."""
    at = 0
    while at + HEAD.size <= len(records):
        kind, nbytes = HEAD.unpack_from(records, at)
        if nbytes < HEAD.size or at + nbytes > len(records):
            return
        yield at, kind, records[at : at + nbytes]
        at += nbytes


def fields(kind: int, record: bytes) -> tuple[int, ...]:
    """The numbers of a record other than a dispatch, in the order in which `copy`, `fill`, `wait`
    and `timestamp` take them; ValueError for a kind that is not known.
    """
    if kind not in _BODIES:
        raise ValueError(f"records: there are none of kind {kind}")
    return _BODIES[kind].unpack_from(record)[2:]


def decode(kind: int, record: bytes) -> str:
    """One line for a record other than a dispatch, whose names only the device knows."""
    if kind == COPY:
        dst, src, nbytes = fields(kind, record)
        return f"copy {nbytes} bytes from {src:#x} to {dst:#x}"
    if kind == FILL:
        dst, nbytes, pattern, width = fields(kind, record)
        return f"fill {nbytes} bytes at {dst:#x} with {pattern:#0{2 + 2 * width}x}"
    if kind == WAIT:
        queue, value = fields(kind, record)
        return f"wait for value {value} of the queue at {queue:#x}"
    if kind == TIMESTAMP:
        (slot,) = fields(kind, record)
        return f"timestamp to {slot:#x}"
    return NAMES.get(kind, f"record of kind {kind}")
