"""Command records as bytes: the Python side of native/include/sp_cmd.h.

This file encodes and decodes. tests/core/test_records.py compares every format with offsetof() of
the C structs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from sparkle_drv._native import lib

DISPATCH, COPY, FILL = lib.SP_CMD_DISPATCH, lib.SP_CMD_COPY, lib.SP_CMD_FILL
BARRIER, WAIT, TIMESTAMP = lib.SP_CMD_BARRIER, lib.SP_CMD_WAIT, lib.SP_CMD_TIMESTAMP

HEAD = struct.Struct("=II")
DISPATCH_HEAD = struct.Struct("=IIQ8I")
BODIES = {
    COPY: struct.Struct("=IIQQQ"),
    FILL: struct.Struct("=IIQQII"),
    BARRIER: HEAD,
    WAIT: struct.Struct("=IIQQ"),
    TIMESTAMP: struct.Struct("=IIQ"),
}

_SAYS = {
    COPY: "copy {2} bytes from {1:#x} to {0:#x}",
    FILL: "fill {1} bytes at {0:#x} with {2:#x} of {3} bytes",
    BARRIER: "barrier",
    WAIT: "wait for value {1} of the queue at {0:#x}",
    TIMESTAMP: "timestamp to {0:#x}",
}


def _encoder(kind: int) -> Callable[..., bytes]:
    body = BODIES[kind]
    return lambda *fields: body.pack(kind, body.size, *fields)


copy = _encoder(COPY)
"""(dst, src, nbytes) as a record."""
fill = _encoder(FILL)
"""(dst, nbytes, pattern, pattern_nbytes) as a record."""
barrier = _encoder(BARRIER)
"""() as a record."""
wait = _encoder(WAIT)
"""(queue, value) as a record."""
timestamp = _encoder(TIMESTAMP)
"""(slot,) as a record."""


def split(records: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields (offset, kind, record) of each record; stops at the first record that is cut off."""
    at = 0
    while at + HEAD.size <= len(records):
        kind, nbytes = HEAD.unpack_from(records, at)
        if nbytes < HEAD.size or at + nbytes > len(records):
            return
        yield at, kind, records[at : at + nbytes]
        at += nbytes


def fields(kind: int, record: bytes) -> tuple[int, ...]:
    """Returns the fields of a command record, in the order of its encode function's arguments.

    Raises ValueError for a dispatch and for an unknown kind.
    """
    if kind not in BODIES:
        raise ValueError(f"records: expected a known kind, got {kind}")
    return BODIES[kind].unpack_from(record)[2:]


def decode(kind: int, record: bytes) -> str:
    """Returns one line of text for a record that is not a dispatch.

    core/describe.py writes the text of a dispatch.
    """
    if kind not in _SAYS:
        return f"record of kind {kind}"
    return _SAYS[kind].format(*fields(kind, record))
