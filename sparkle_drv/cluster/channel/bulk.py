"""Transfers: bytes in chunks that arrive in any order, any number of times.

The receiver says which chunks it takes (GRANT), as its credit allows, and names those that are
overdue. The sender only answers. A sender that hears nothing after its last chunk sends that again;
the receiver then says how far it is.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkle_drv.cluster.channel.credit import Credit

CHUNK = 256 << 10
"""Bytes of a chunk. The engine waits for room by message, and a small one does not wait long. Each
chunk costs both ends time in Python: an upload reached 0.59 of bare Zenoh's rate, with 128 KiB
0.45 (benchmarks/cluster.py, row `bulk device / zenoh`)."""
FLIGHT = 6  # chunks of one transfer under way at most
TOGETHER = 3  # chunks that are granted at once: each GRANT costs a message
_NAMED = 16  # overdue chunks that one GRANT names


def chunks(nbytes: int) -> int:
    """How many chunks a transfer of so many bytes has."""
    return -(-nbytes // CHUNK)


class Sending:
    """A transfer that this end sends. The channel's lock guards it."""

    def __init__(self, data: memoryview, done: Callable[[], None], now: float) -> None:
        self._data, self.done = data, done
        self._count = chunks(data.nbytes)
        self._next = 0
        self.heard_at = now
        """When the receiver was heard of, or something was sent, last."""

    def granted(self, upto: int, missing: list[int], now: float) -> list[int]:
        """The chunks to be sent now."""
        self.heard_at = now
        wanted = [index for index in missing[:_NAMED] if 0 <= index < self._next]
        upto = min(upto, self._count)
        wanted += range(self._next, upto)
        self._next = max(self._next, upto)
        return wanted

    def overdue(self, now: float) -> list[int]:
        """The chunk to be sent again because the receiver is silent."""
        self.heard_at = now
        return [self._next - 1] if self._next else []

    def chunk(self, index: int) -> memoryview:
        return self._data[index * CHUNK : (index + 1) * CHUNK]


class Receiving:
    """A transfer that this end receives. The channel's lock guards it."""

    def __init__(self, into: memoryview, done: Callable[[], None], now: float) -> None:
        self._into = into
        self._count = chunks(into.nbytes)
        self._got = bytearray(self._count)
        self._left = self._count
        self._upto = 0  # chunks below were granted
        self._low = 0  # chunks below have all arrived
        self.waits = False
        """Does it stand in the credit's queue?"""
        self.done = done
        self.heard_at = now

    @property
    def complete(self) -> bool:
        return not self._left

    @property
    def left(self) -> int:
        """Chunks that have not arrived."""
        return self._left

    @property
    def held(self) -> int:
        """Bytes of credit that it has."""
        return (self._upto - (self._count - self._left)) * CHUNK

    def extend(self, credit: Credit, later: Callable[[], None]) -> bool:
        """Take credit for what fits; True: there is something new to grant."""
        before = self._upto
        while not self.waits and self._upto < self._count:
            more = min(TOGETHER, self._count - self._upto)
            if self.held + more * CHUNK > FLIGHT * CHUNK:
                break
            if not credit.take(more * CHUNK, later):
                self.waits = True
                break
            self._upto += more
        return self._upto > before

    def put(self, index: int, payload: bytes | memoryview, now: float) -> bool:
        """A chunk arrived; True: it was new. A wrong index or size changes nothing."""
        at = index * CHUNK
        if not 0 <= index < self._upto or len(payload) != min(CHUNK, self._into.nbytes - at):
            return False
        self.heard_at = now
        if self._got[index]:
            return False
        self._into[at : at + len(payload)] = payload
        self._got[index] = 1
        self._left -= 1
        while self._low < self._count and self._got[self._low]:
            self._low += 1
        return True

    def grant(self, overdue: bool) -> tuple[int, list[int]]:
        """(upto, missing) of a GRANT; `overdue`: name the chunks that should be here by now."""
        if self.complete:
            return -1, []
        missing = []
        if overdue:
            missing = [n for n in range(self._low, self._upto) if not self._got[n]][:_NAMED]
        return self._upto, missing
