"""Who does which piece of a call, once: claimed, computed, committed. Threads share a ledger.

Each device first claims the pieces that are planned for it, then chunks of the tail by the rule of
tail.py; what a failed device gives back is in the tail. Of two results of one piece the first
commit counts, and a later one is dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from .shares import Piece
from .site import Pace
from .tail import takes


class Ledger:
    """The pieces of one call. `claim`, `commit` and `gone` are for the threads of devices."""

    def __init__(
        self, parts: Mapping[str, Iterable[Piece]], tail: Iterable[Piece],
        paces: Mapping[str, Pace],
    ) -> None:  # fmt: skip
        self._planned = {uri: deque(pieces) for uri, pieces in parts.items()}
        self._tail = deque(tail)
        self._paces = {uri: paces[uri] for uri in parts}
        self._claimed: dict[Piece, set[str]] = {}
        self._lock = threading.Lock()
        self.committed: dict[Piece, str] = {}
        """By piece: the device whose result counts."""
        self.dropped = 0
        """Results of pieces that another device had committed already."""
        self._written = 0
        self._count = len(self._tail) + sum(map(len, self._planned.values()))

    @property
    def complete(self) -> bool:
        """Has the result of every piece been written?"""
        return self._written == self._count

    def claim(self, uri: str) -> Piece | None:
        """The next piece for this device; None: there is none that it should do."""
        with self._lock:
            pieces = self._planned.get(uri) or self._tail
            if (
                uri not in self._paces
                or not pieces
                or (pieces is self._tail and not self._takes(uri))
            ):
                return None
            piece = pieces.popleft()
            self._claimed.setdefault(piece, set()).add(uri)
            return piece

    def _takes(self, uri: str) -> bool:
        """Does it take the next chunk of the tail?"""
        mine, all_of = self._paces[uri], self._paces.values()
        left_s = sum(p.units for p in self._tail) / sum(1 / pace.each for pace in all_of)
        piece_s = mine.piece_s(self._tail[0].units)
        return takes(piece_s, left_s, mine.each == min(pace.each for pace in all_of))

    def commit(self, uri: str, piece: Piece, write: Callable[[], object]) -> bool:
        """`write()` the result of a piece; False, and it is dropped: another device has done so."""
        with self._lock:
            if piece in self.committed:
                self.dropped += 1
                return False
            self.committed[piece] = uri
            self._claimed.pop(piece, None)
        write()
        with self._lock:
            self._written += 1
        return True

    def gone(self, uri: str) -> None:
        """A device takes no more: what it claimed and what is planned for it goes to the tail."""
        with self._lock:
            self._paces.pop(uri, None)
            for by in self._claimed.values():
                by.discard(uri)
            back = [piece for piece, by in self._claimed.items() if not by]
            for piece in back:
                del self._claimed[piece]
            self._tail.extendleft(reversed([*back, *self._planned.pop(uri, ())]))
