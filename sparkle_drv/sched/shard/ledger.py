"""Ledger: the record of which device does which piece of a call. Threads share it.

Each device first claims its planned pieces. Then it claims chunks of the tail by the rule of
tail.py, and at last the late pieces of others by the rule of late_pieces.py. The first commit of a
piece counts; later ones are dropped.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from .late_pieces import LATE, again
from .pieces import largest
from .shares import Piece
from .site import Pace
from .tail import takes


@dataclass(frozen=True)
class Claim:
    """A piece that a device has begun, or will begin after its earlier ones."""

    piece: Piece
    uri: str
    ends_s: float
    """Predicted end of the piece."""
    late_s: float
    """Time from which the piece is late."""


class Ledger:
    """The pieces of one call. Threads of devices call `claim`, `commit` and `gone`.

    Times are seconds of the run's clock. A piece is late at LATE times its predicted seconds, plus
    `slack_s`.
    """

    def __init__(
        self, parts: Mapping[str, Iterable[Piece]], tail: Iterable[Piece],
        paces: Mapping[str, Pace], slack_s: float = 0.0, call_s: float = 0.0,
    ) -> None:  # fmt: skip
        """Builds the ledger. `call_s` is the predicted seconds of the call, which limits the length
        of a piece. With 0, only the device's memory limits that length.
        """
        self._planned = {uri: deque(pieces) for uri, pieces in parts.items()}
        self._tail = deque(tail)
        self._paces = {uri: paces[uri] for uri in parts}
        self._slack_s = slack_s
        self._most = {
            uri: largest(pace, call_s) if call_s else pace.most for uri, pace in self._paces.items()
        }
        self._claims: dict[Piece, list[Claim]] = {}
        self._begun: set[str] = set()
        self._lock = threading.Lock()
        self.committed: dict[Piece, str] = {}
        """For each piece, the URI of the device whose result counts."""
        self.dropped = 0
        """Results that came second, or from a device that was given up."""
        self.doubled = 0
        """Late pieces that another device started again."""
        self._written = self._writing = 0
        self._closed = False
        self._count = len(self._tail) + sum(map(len, self._planned.values()))

    @property
    def complete(self) -> bool:
        """Whether the result of every piece has been written."""
        return self._written == self._count

    def open(self, uri: str) -> list[Claim]:
        """Returns the claims of a device that have not ended, even if others committed the
        pieces.
        """
        with self._lock:
            return self._of(uri)

    def claim(self, uri: str, now_s: float) -> Claim | float | None:
        """Returns the next piece for this device.

        Returns a float if the device must ask again at that time. The float is inf if the device
        must wait for a commit or a failure instead. Returns None if it will get no more pieces.
        """
        with self._lock:
            if uri not in self._paces or len(self.committed) == self._count:
                return None
            late = self._late(now_s)
            for other in late:
                self._give_back(other)
            if uri in late:
                return math.inf
            mine = self._planned.get(uri)
            if mine:
                return self._claimed(mine.popleft(), uri, now_s)
            if self._tail and self._takes(uri, late):
                return self._claimed(self._front(uri), uri, now_s)
            if (piece := self._doubtful(uri, now_s)) is not None:
                self.doubled += 1
                return self._claimed(piece, uri, now_s)
            others = (one for claims in self._claims.values() for one in claims if one.uri != uri)
            return min((one.late_s for one in others if one.late_s > now_s), default=math.inf)

    def _front(self, uri: str) -> Piece:
        """Returns the first chunk of the tail, cut to the longest piece that this device may do."""
        piece = self._tail.popleft()
        most = self._most[uri]
        if piece.units > most:
            begin, end = piece
            piece = Piece(begin, begin + int(most))
            self._tail.appendleft(Piece(piece.end, end))
            self._count += 1
        return piece

    def _of(self, uri: str) -> list[Claim]:
        return [one for claims in self._claims.values() for one in claims if one.uri == uri]

    def _claimed(self, piece: Piece, uri: str, now_s: float) -> Claim:
        pace, mine = self._paces[uri], self._of(uri)
        begun_s = max((one.ends_s for one in mine if one.ends_s > now_s), default=now_s)
        takes_s = pace.piece_s(piece.units) if mine else pace.alone_s(piece.units)
        if uri not in self._begun:
            self._begun.add(uri)
            takes_s += max(pace.start, pace.ready)
        ends_s = begun_s + takes_s
        made = Claim(piece, uri, ends_s, now_s + LATE * (ends_s - now_s) + self._slack_s)
        self._claims.setdefault(piece, []).append(made)
        return made

    def _late(self, now_s: float) -> set[str]:
        """Returns the devices that have a late piece, one that has taken far longer than predicted
        (late_pieces.py).
        """
        claims = (one for claims in self._claims.values() for one in claims)
        return {one.uri for one in claims if one.late_s <= now_s}

    def _doubtful(self, uri: str, now_s: float) -> Piece | None:
        """Returns the late piece that this device should do again, or None.

        This device is predicted to end the piece before all devices that do it and are not late. Of
        several such pieces, the one that has been late for longest is returned.
        """
        late = [
            claims
            for piece, claims in self._claims.items()
            if piece not in self.committed
            and any(one.late_s <= now_s for one in claims)
            and all(one.uri != uri for one in claims)
            and again(
                now_s, self._paces[uri], claims[0].piece.units,
                (one.ends_s for one in claims if one.late_s > now_s),
            )
        ]  # fmt: skip
        return min(late, key=lambda claims: claims[0].late_s)[0].piece if late else None

    def _takes(self, uri: str, late: set[str]) -> bool:
        """Returns whether the device takes the next chunk of the tail."""
        mine = self._paces[uri]
        well = [pace for other, pace in self._paces.items() if other == uri or other not in late]
        left_s = sum(p.units for p in self._tail) / sum(1 / pace.each for pace in well)
        piece_s = mine.piece_s(int(min(self._tail[0].units, self._most[uri])))
        return takes(piece_s, left_s, mine.each == min(pace.each for pace in well))

    def commit(self, uri: str, piece: Piece, write: Callable[[], object]) -> bool:
        """Calls `write()` for the result of a piece.

        Returns False if the result is dropped: another device committed the piece, or this device
        was given up.
        """
        with self._lock:
            its = any(one.uri == uri for one in self._claims.get(piece, ()))
            self._ended(piece, uri)
            if not its or piece in self.committed or self._closed:
                self.dropped += 1
                return False
            self.committed[piece] = uri
            self._writing += 1
        try:
            write()
        finally:
            with self._lock:
                self._writing -= 1
        with self._lock:
            self._written += 1
        return True

    def shut(self) -> None:
        """Lets no further result be written. Returns when the writes in progress have ended."""
        with self._lock:
            self._closed = True
        while self._writing:
            time.sleep(1e-4)

    def gone(self, uri: str) -> None:
        """Takes a failed device out of the call: its claims and planned pieces go to the tail."""
        with self._lock:
            self._paces.pop(uri, None)
            for piece in list(self._claims):
                if not self._ended(piece, uri) and piece not in self.committed:
                    self._tail.appendleft(piece)
            self._give_back(uri)

    def _ended(self, piece: Piece, uri: str) -> bool:
        """Removes the device's claim of the piece. Returns whether another device still does the
        piece.
        """
        left = [one for one in self._claims.pop(piece, ()) if one.uri != uri]
        if left:
            self._claims[piece] = left
        return bool(left)

    def _give_back(self, uri: str) -> None:
        self._tail.extendleft(reversed(self._planned.pop(uri, ())))
