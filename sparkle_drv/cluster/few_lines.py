"""FewLines: passes on lines for people, at most MOST_LINES of one source in EVERY_S seconds,
and then says how many it dropped.

Whoever reaches a node can cause lines: by forged messages, refused handshakes, or failed links. The
source of a line is the text before its first colon: a client's proved name, or the node's own. What
strangers claim never stands there, so they cannot invent sources.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

MOST_LINES = 20
EVERY_S = 10.0
MOST_SOURCES = 256
"""Sources that are counted apart; all further ones share a count."""
_FURTHER = "further sources"


def _daemon_timer(delay_s: float, action: Callable[[], None]) -> None:
    timer = threading.Timer(delay_s, action)
    timer.daemon = True
    timer.start()


class FewLines:
    """Calls `say(line)` for the first lines of each source. Any thread may call it. After `delay_s`
    seconds, `later(delay_s, action)` calls `action` in some thread.
    """

    def __init__(
        self, say: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] = _daemon_timer,
    ) -> None:  # fmt: skip
        self._say, self._clock, self._later = say, clock, later
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._began_s = clock()

    def __call__(self, line: str) -> None:
        if self.admits(line):
            self._say(line)

    def admits(self, line: str) -> bool:
        """Counts a line of its source, and returns whether it may be passed on."""
        source = line.partition(":")[0]
        if self._clock() - self._began_s >= EVERY_S:
            self._turn()
        with self._lock:
            if source not in self._counts and len(self._counts) >= MOST_SOURCES:
                source = _FURTHER
            count = self._counts[source] = self._counts.get(source, 0) + 1
            first_dropped = count == MOST_LINES + 1
        if first_dropped:  # the summary comes even if no further line does
            self._later(EVERY_S, self._turn)
        return count <= MOST_LINES

    def _turn(self) -> None:
        """Begins to count anew, if that is due, and says how many lines were dropped."""
        with self._lock:
            now = self._clock()
            if now - self._began_s < EVERY_S:
                return
            self._began_s, counts, self._counts = now, self._counts, {}
        for source, count in counts.items():
            if count > MOST_LINES:
                self._say(f"{source}: {count - MOST_LINES} more lines dropped")


class FewRecords(logging.Filter):
    """FewLines for a logger: records beyond the limit are dropped."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._few = FewLines(lambda line: logger.warning(line, extra={"few": True}))

    def filter(self, record: logging.LogRecord) -> bool:
        return hasattr(record, "few") or self._few.admits(record.getMessage())
