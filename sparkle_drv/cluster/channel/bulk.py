"""Transfers: bytes in chunks that arrive in any order, any number of times.

The receiver grants chunks (GRANT) as its credit allows, and names overdue ones. The sender only
answers. A sender that hears nothing after its last chunk sends that chunk again. The receiver then
answers with its progress.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkle_drv.cluster.channel.credit import Credit

CHUNK = 256 << 10
"""Bytes of a chunk. The engine waits for room per message, and briefly for a small one. Each chunk
costs both ends time in Python: an upload reached 0.59 of bare Zenoh's rate, with 128 KiB 0.45
(benchmarks/cluster.py, row `bulk device / zenoh`)."""
FLIGHT = 6  # chunks of one transfer in flight at most
TOGETHER = 3  # chunks per grant: each GRANT costs a message
_NAMED = 16  # overdue chunks that one GRANT names at most


def chunks(nbytes: int) -> int:
    """The number of chunks of a transfer of `nbytes`."""
    return -(-nbytes // CHUNK)


class Sending:
    """A transfer that this end sends, guarded by the channel's lock."""

    def __init__(self, data: memoryview, done: Callable[[], None], now: float) -> None:
        self._data, self.done = data, done
        self._count = chunks(data.nbytes)
        self._next = 0
        self.heard_at = now
        """When the receiver was last heard, or something was last sent."""

    def granted(self, upto: int, missing: list[int], now: float) -> list[int]:
        """The chunks to send now, after a grant up to chunk `upto`."""
        self.heard_at = now
        wanted = [index for index in missing[:_NAMED] if 0 <= index < self._next]
        upto = min(upto, self._count)
        wanted += range(self._next, upto)
        self._next = max(self._next, upto)
        return wanted

    def overdue(self, now: float) -> list[int]:
        """The chunk to send again because the receiver is silent."""
        self.heard_at = now
        return [self._next - 1] if self._next else []

    def chunk(self, index: int) -> memoryview:
        return self._data[index * CHUNK : (index + 1) * CHUNK]


class Receiving:
    """A transfer that this end receives, guarded by the channel's lock."""

    def __init__(self, into: memoryview, done: Callable[[], None], now: float) -> None:
        self._into = into
        self._count = chunks(into.nbytes)
        self._got = bytearray(self._count)
        self._left = self._count
        self._upto = 0  # chunks below this number are granted
        self._low = 0  # chunks below this number have arrived
        self.waits = False
        """Is it in the credit's queue?"""
        self.done = done
        self.heard_at = now

    @property
    def complete(self) -> bool:
        return not self._left

    @property
    def left(self) -> int:
        """Number of chunks that have not arrived."""
        return self._left

    @property
    def held(self) -> int:
        """Bytes of credit that it holds."""
        return (self._upto - (self._count - self._left)) * CHUNK

    def extend(self, credit: Credit, later: Callable[[], None]) -> bool:
        """Takes credit for further chunks. Is there anything new to grant?"""
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
        """Takes a chunk. Was it new? A wrong index or size changes nothing."""
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
        """(upto, missing) of a GRANT. With `overdue` it names the chunks that should be here."""
        if self.complete:
            return -1, []
        missing = []
        if overdue:
            missing = [n for n in range(self._low, self._upto) if not self._got[n]][:_NAMED]
        return self._upto, missing
