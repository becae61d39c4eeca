"""Trace: spans on tracks, and flows between spans.

While a trace is being recorded, threads only append to it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

Track = tuple[str, str]
"""(node, queue), such as ("host", "plan") or ("cuda:0", "compute"). Spans on a track follow one
another."""


@dataclass(frozen=True)
class Span:
    """An interval from `begin_ns` to `end_ns` on the trace's clock."""

    track: Track
    name: str
    begin_ns: int
    end_ns: int
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Flow:
    """An arrow in a trace: data that went from one span to another."""

    name: str
    source: Span
    to: Span


@dataclass
class Trace:
    """One recording: the spans and flows of what ran. Any thread may add to it."""

    name: str
    begin_ns: int
    """Beginning of the trace. `end_ns` is its end, 0 while it runs."""
    end_ns: int = 0
    spans: list[Span] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    journal: list[str] = field(default_factory=list)
    """The recorder's journal, one line per entry. A replay of it can decide the same again."""
    noted: list[tuple[Track, str, int, int]] = field(default_factory=list, repr=False)
    """Spans as (track, name, begin, end) until `settle`. Appending one is so quick that the gap
    between two spans is negligible."""
    _calls: threading.local = field(default_factory=threading.local, repr=False, compare=False)
    # Re-entrant: a signal handler or finalizer may append while the lock is held.
    _lock: Any = field(default_factory=threading.RLock, repr=False, compare=False)

    @property
    def call_ns(self) -> int:
        """When this thread's current call began. For a call that began before the trace, the
        trace's beginning.
        """
        return getattr(self._calls, "began_ns", self.begin_ns)

    @call_ns.setter
    def call_ns(self, now: int) -> None:
        self._calls.began_ns = now

    def span(self, track: Track, name: str, begin_ns: int, end_ns: int, **args: Any) -> Span:
        """Records a span that has ended."""
        made = Span(track, name, begin_ns, end_ns, args)
        with self._lock:
            self.spans.append(made)
        return made

    def flow(self, name: str, source: Span, to: Span) -> None:
        """Records that data went from one span to another."""
        with self._lock:
            self.flows.append(Flow(name, source, to))

    def settle(self) -> None:
        """Makes a Span of each tuple in `noted`, and moves it to `spans`."""
        with self._lock:
            count = len(self.noted)  # other threads may append more meanwhile
            self.spans += [Span(*one) for one in self.noted[:count]]
            del self.noted[:count]

    def copies(self) -> tuple[list[Span], list[Flow]]:
        """Returns copies of the lists of spans and flows recorded so far. Calls that are still
        running may record more in the trace.
        """
        self.settle()
        with self._lock:
            return list(self.spans), list(self.flows)

    def covered(self) -> float:
        """Returns the part of the time from beginning to end in which at least one span was
        active.
        """
        total = self.end_ns - self.begin_ns
        if total <= 0:
            return 0.0
        covered, until = 0, self.begin_ns
        for span in sorted(self.copies()[0], key=lambda span: span.begin_ns):
            begin, end = max(span.begin_ns, until), min(span.end_ns, self.end_ns)
            covered += max(0, end - begin)
            until = max(until, end)
        return covered / total
