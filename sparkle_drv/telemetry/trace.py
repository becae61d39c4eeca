"""Trace: spans on tracks, and flows between spans. Appending is all that is done while it runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

Track = tuple[str, str]
"""(node, queue): ("host", "plan"), ("cuda:0", "compute"). One after another happens on a track."""


@dataclass(frozen=True)
class Span:
    """Something that took from `begin_ns` to `end_ns` on the clock of the trace."""

    track: Track
    name: str
    begin_ns: int
    end_ns: int
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Flow:
    """Data that went from the end of one span to the beginning of another."""

    name: str
    source: Span
    to: Span


@dataclass
class Trace:
    """One recording. Any thread may append."""

    name: str
    begin_ns: int
    """When it began, and, once it has, when it ended."""
    end_ns: int = 0
    spans: list[Span] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    journal: list[str] = field(default_factory=list)
    """What the recorder wrote down to decide the same again, a line each."""
    noted: list[tuple[Track, str, int, int]] = field(default_factory=list, repr=False)
    """Spans as (track, name, begin, end), until `settle`: to append one takes next to no time, so
    that what stands between two is next to nothing."""
    _calls: threading.local = field(default_factory=threading.local, repr=False, compare=False)
    # A signal's handler, or a finalizer, may append as well, in the middle of either.
    _lock: Any = field(default_factory=threading.RLock, repr=False, compare=False)

    @property
    def call_ns(self) -> int:
        """When the call that is going on in this thread began, or, if it was before, the trace."""
        return getattr(self._calls, "began_ns", self.begin_ns)

    @call_ns.setter
    def call_ns(self, now: int) -> None:
        self._calls.began_ns = now

    def span(self, track: Track, name: str, begin_ns: int, end_ns: int, **args: Any) -> Span:
        """Note a span that has ended."""
        made = Span(track, name, begin_ns, end_ns, args)
        with self._lock:
            self.spans.append(made)
        return made

    def flow(self, name: str, source: Span, to: Span) -> None:
        """Note that data went from one span to another."""
        with self._lock:
            self.flows.append(Flow(name, source, to))

    def settle(self) -> None:
        """Make spans of what was noted."""
        with self._lock:
            count = len(self.noted)  # others may note more meanwhile
            self.spans += [Span(*one) for one in self.noted[:count]]
            del self.noted[:count]

    def taken(self) -> tuple[list[Span], list[Flow]]:
        """The spans and flows so far, also while calls that had begun in it still append."""
        self.settle()
        with self._lock:
            return list(self.spans), list(self.flows)

    def covered(self) -> float:
        """The share of the time from beginning to end in which at least one span was going on."""
        total = self.end_ns - self.begin_ns
        if total <= 0:
            return 0.0
        covered, until = 0, self.begin_ns
        for span in sorted(self.taken()[0], key=lambda span: span.begin_ns):
            begin, end = max(span.begin_ns, until), min(span.end_ns, self.end_ns)
            covered += max(0, end - begin)
            until = max(until, end)
        return covered / total
