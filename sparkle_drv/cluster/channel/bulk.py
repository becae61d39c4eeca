"""Transfers: bytes in chunks. A chunk may arrive in any order and several times.

The receiver grants chunks as its credit allows, by frames GRANT, which also list overdue chunks.
The sender sends only granted chunks. A sender that hears nothing after its last chunk sends that
chunk again. The receiver answers the repeated chunk with a GRANT.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkle_drv.cluster.channel.credit import ClientCredit

CHUNK = 512 << 10
"""Bytes of a chunk. The engine waits for room per message, and briefly for a small one. Each chunk
costs both ends time in Python. On two busy cores an upload reached 0.80 of the rate that 256 KiB
had without encryption; with encryption, 256 KiB reached 0.68. Credit for one chunk (credit.BULK)
always remains."""
FLIGHT = 3  # chunks of one transfer that may be in flight
LATE_RTO = 4
"""Times the RTO without a chunk after which the granted chunks of a transfer are late."""
TOGETHER = 1  # chunks that one GRANT asks for
_NAMED = 16  # overdue chunks that one GRANT lists at most


def chunks(nbytes: int) -> int:
    """Returns the number of chunks of a transfer of `nbytes`."""
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
        """Handles a frame GRANT: it allows all chunks below number `upto`, and asks again for those
        in `missing`. Returns the numbers of the chunks to send now.
        """
        self.heard_at = now
        wanted = [index for index in missing[:_NAMED] if 0 <= index < self._next]
        upto = min(upto, self._count)
        wanted += range(self._next, upto)
        self._next = max(self._next, upto)
        return wanted

    def overdue(self, now: float) -> list[int]:
        """Returns a list with the number of the last sent chunk, or [] if no chunk was sent.

        Call it when the receiver is silent, and send that chunk again.
        """
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
        self._upto = 0  # chunks with numbers below `_upto` are granted
        self._low = 0  # all chunks with numbers below `_low` have arrived
        self._late = 0  # granted chunks whose credit has lapsed
        self._since = now  # when a chunk last arrived, or the only one in flight was granted
        self._later: Callable[[], None] | None = None  # the callback in the credit's queue
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
    def flight(self) -> int:
        """Number of granted chunks that have not arrived."""
        return self._upto - (self._count - self._left)

    def extend(self, credit: ClientCredit, later: Callable[[], None], now: float) -> bool:
        """Takes credit for further chunks. Returns whether there are new chunks to grant. If too
        little credit is left, `later` is called once there is enough, and must call `resume`.
        """
        before = self._upto
        while self._later is None and self._upto < self._count:
            more = min(TOGETHER, self._count - self._upto)
            if self.flight + more > FLIGHT:
                break
            if not credit.take(more * CHUNK, later):
                self._later = later
                break
            if not self.flight:
                self._since = now
            self._upto += more
        return self._upto > before

    @property
    def asks(self) -> bool:
        """Whether there is something to ask for: one that waits for credit, with no chunk in
        flight, asks for nothing.
        """
        return self._later is None or self.flight > 0

    def resume(self) -> None:
        """Says that the credit's queue has called `later`."""
        self._later = None

    def lapse(self, now: float, late_s: float) -> int:
        """Returns how many bytes of credit lapse now: those of chunks in flight, if none has
        arrived for `late_s` seconds.
        """
        if now - self._since < late_s:
            return 0
        lapsed, self._late = self.flight - self._late, self.flight
        return lapsed * CHUNK

    def release(self, credit: ClientCredit) -> None:
        """Gives all credit back: nothing arrives any more. Call it without the channel's lock, once
        the channel has forgotten the transfer.
        """
        if self._later is not None:
            credit.cancel(self._later)
        credit.settle(self._late * CHUNK)
        credit.give((self.flight - self._late) * CHUNK)

    def put(self, index: int, payload: bytes | memoryview, now: float) -> bool:
        """Stores a chunk, and returns whether it is new. Ignores a wrong index or size."""
        at = index * CHUNK
        if not 0 <= index < self._upto or len(payload) != min(CHUNK, self._into.nbytes - at):
            return False
        self.heard_at = now
        if self._got[index]:
            return False
        self._into[at : at + len(payload)] = payload
        self._got[index] = 1
        self._left -= 1
        self._since = now
        while self._low < self._count and self._got[self._low]:
            self._low += 1
        return True

    def settle(self) -> bool:
        """Returns whether the credit of a chunk that has arrived had lapsed. Call it once for each
        new chunk.
        """
        if not self._late:
            return False
        self._late -= 1
        return True

    def grant(self, overdue: bool) -> tuple[int, list[int]]:
        """Returns the fields of a GRANT: `upto`, and the list `missing`. Chunks with numbers below
        `upto` are granted; -1 says that all have arrived. With `overdue`, `missing` lists granted
        chunks that have not arrived; otherwise it is empty.
        """
        if self.complete:
            return -1, []
        missing = []
        if overdue:
            missing = [n for n in range(self._low, self._upto) if not self._got[n]][:_NAMED]
        return self._upto, missing
