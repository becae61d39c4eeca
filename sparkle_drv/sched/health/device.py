"""One device's health as a state machine that keeps the history of its transitions.

The caller reports progress of the device's pieces. While there is no progress, the caller submits
heartbeats (NOPs) when `due`, and reports their answers. Silence does not count while a submission
is within its deadline. A device that answers heartbeats is slow at worst, never lost.

The class reads no clock, calls no device and has no lock. Threads that share a Health must hold a
lock of their own around each call, and read a monotonic clock while they hold it.
"""

from __future__ import annotations

import math
from collections import deque
from random import Random

from .backoff import wait_s
from .states import State, Transition
from .thresholds import (
    FAILURES,
    FAR,
    GOOD,
    MARGIN_S,
    RECOVERED,
    SLOW_WEIGHT,
    STORY,
    STRIKES,
    TRIES,
)


class Health:
    """Health of the device `uri`. All times are seconds on one clock of the caller.

    `heartbeat_s` is the silence after which a heartbeat is due, and the time its answer may take.
    `missed` is the number of unanswered heartbeats in a row after which the device is lost. `seed`
    seeds the jitter.
    """

    def __init__(self, uri: str, heartbeat_s: float = 0.5, missed: int = 4, seed: int = 0) -> None:
        """Raises ValueError if `heartbeat_s` or `missed` is not above 0."""
        if not heartbeat_s > 0:
            raise ValueError(f"expected heartbeat_s above 0, got {heartbeat_s}")
        if missed < 1:
            raise ValueError(f"missed: expected 1 heartbeat or more, got {missed}")
        self.uri, self.heartbeat_s, self.missed = uri, heartbeat_s, missed
        self.state = State.HEALTHY
        self.staging = False
        """Whether the device became slow a second time: it gets no share of the work, but bytes may
        be staged there. The value is kept while the device is suspect or on probation."""
        self.try_at_s = math.inf
        """When to try a device that is lost or only stages. inf if there is nothing to try, or
        after TRIES failed tries."""
        self._story: deque[Transition] = deque(maxlen=STORY)
        self._chance = Random(f"{seed} {uri}")
        self._since = -math.inf  # start of silence: the last sign of life, or the first work
        self._works = False
        # Begin and deadline of the submission with the latest deadline.
        self._begun = self._deadline = -math.inf
        self._misses = self._strikes = self._good = self._failures = self._tries = 0

    @property
    def story(self) -> tuple[Transition, ...]:
        """The last STORY transitions, oldest first."""
        return tuple(self._story)

    @property
    def why(self) -> str:
        """Why the device is in its state."""
        return self._story[-1].why if self._story else "nothing has gone wrong yet"

    @property
    def weight(self) -> float:
        """The part of its planned share that this device gets, in 0..1; 0 means no new pieces.

        If no device of a call has a share, slow devices do the call nevertheless.
        """
        if self.state is State.HEALTHY:
            return 1.0
        if self.state is State.SLOW:
            return 0.0 if self.staging else SLOW_WEIGHT
        if self.state in (State.BACK, State.PROBATION):
            return 2.0 ** (self._good - RECOVERED)
        return 0.0

    @property
    def takes_work(self) -> bool:
        """Whether the device may get pieces of a call now."""
        return self.weight > 0

    def started(self, now_s: float, deadline_s: float) -> None:
        """Reports that a submission runs. It is predicted to end by `deadline_s`, earlier queued
        work included. Until the latest deadline, silence does not count.
        """
        if self.state is State.LOST:
            return
        if not self._works:
            self._works, self._since = True, max(self._since, now_s)
        if deadline_s > self._deadline:
            self._begun, self._deadline = now_s, deadline_s

    def idle(self, now_s: float) -> None:
        """Reports that the device has no work, so that heartbeats are not due. The next call
        of `started` measures silence anew. A suspect device still gets heartbeats, since an
        answer clears it of suspicion.
        """
        self._works, self._deadline = False, -math.inf

    def progress(self, now_s: float, took_s: float, predicted_s: float) -> None:
        """Reports that a piece ended after `took_s`. With `predicted_s` 0 (no prediction) the piece
        is only a sign of life.
        """
        if self.state is State.LOST:
            return
        if self.state is State.PROBATION:
            self.tried(now_s, True, "a piece ended")
        self._alive(now_s, "a piece ended")
        if predicted_s <= 0:
            return
        if took_s > FAR * predicted_s + MARGIN_S:
            self._strike(now_s, f"a piece took {took_s:.3g} s, predicted {predicted_s:.3g} s")
            return
        self._strikes = 0
        if took_s <= GOOD * predicted_s + MARGIN_S:
            self._good += 1
            if self._good >= RECOVERED and self.state is not State.HEALTHY:
                self._go(now_s, State.HEALTHY, f"{self._good} pieces were as predicted")

    def due(self, now_s: float) -> bool:
        """Returns whether a heartbeat is due. Call this only when no heartbeat is on its way.

        One is due when the device has work, was silent for `heartbeat_s`, and should have ended its
        work by now, as predicted. For a suspect device one is due at once.
        """
        if self.state is State.LOST:
            return False
        silent = now_s - self._since >= self.heartbeat_s and now_s > self._deadline
        return self.state is State.SUSPECT or (self._works and silent)

    def beat(self, now_s: float) -> None:
        """Reports an answered heartbeat: the device is alive, though its work may be late."""
        if self.state is State.LOST:
            return
        self._alive(now_s, "a heartbeat came back")
        running_s, predicted_s = now_s - self._begun, self._deadline - self._begun
        if self._works and running_s > FAR * predicted_s + MARGIN_S:
            said = f"it answers, but its work runs for {running_s:.3g} s"
            self._strike(now_s, f"{said}, predicted {predicted_s:.3g} s")

    def missed_beat(self, now_s: float) -> None:
        """Reports that a heartbeat was not answered within `heartbeat_s`. The miss does not count
        if there was a sign of life in that time, or if a submission is within its deadline. It does
        not count either if the device has no work and is not suspect.
        """
        wanted = self._works or self.state is State.SUSPECT
        heard = now_s - self._since < self.heartbeat_s or now_s <= self._deadline
        if self.state is State.LOST or not wanted or heard:
            return
        self._misses += 1
        s = "s in a row" if self._misses > 1 else ""
        why = f"no answer to {self._misses} heartbeat{s}"
        self._doubt(now_s, why, self._misses >= self.missed)

    def failed(self, now_s: float, why: str, lost: bool = False) -> None:
        """Reports that a call failed by a fault of the device. `lost` means that the device itself
        reports that it is lost.
        """
        if self.state is State.LOST:
            return
        self._failures += 1
        many = self._failures >= FAILURES
        times = f"failure {self._failures} without being healthy in between: " if many else ""
        self._doubt(now_s, times + why, lost or many)

    def tries(self, now_s: float) -> bool:
        """Begins probation and returns True. Returns False if it is too early, or if a try is under
        way.

        The caller that gets True tries the device and reports to `tried`. A lost device is tried by
        a call with a known result. A slow device, which only passes on staged bytes, is tried by a
        piece: a NOP would not show how fast the device is.
        """
        if now_s < self.try_at_s:
            return False
        self._misses = 0
        self._tries += 1
        why = f"try {self._tries} since it was healthy"
        self._go(now_s, State.PROBATION, why, self.staging)
        return True

    def tried(self, now_s: float, well: bool, why: str = "") -> None:
        """Reports whether a try of the device, which `tries` began, went well. The report is
        ignored when the device is no longer on probation.
        """
        if self.state is not State.PROBATION:
            return
        if well:
            self._go(now_s, State.BACK, why or "the try went well")
        else:
            after = State.SLOW if self.staging else State.LOST
            self._go(now_s, after, f"the try failed: {why}" if why else "the try failed", True)

    def explain(self) -> str:
        """Returns the state in one line, then the history, one line per transition."""
        aside = self.staging and self.state is State.SLOW
        share = "only staging" if aside else f"share {self.weight:.3g}"
        first = f"{self.uri}: {self.state.value}, {share}: {self.why}"
        if aside or self.state is State.LOST:
            gone = math.isinf(self.try_at_s)
            first += "; gone for good" if gone else f"; tried at {self.try_at_s:.3f} s"
        return "\n".join([first, *(f"  {step}" for step in self._story)])

    def _alive(self, now_s: float, why: str) -> None:
        """Notes a sign of life: silence counts from now, and the device is no longer suspect."""
        silent, self._misses = self._misses > 0, 0
        self._since = max(self._since, now_s)
        if self.state is State.SUSPECT:
            # A suspect device that was silent becomes SLOW. But if it was lost and tried since it
            # was last healthy, it becomes BACK. A device that is BACK gets more and more work,
            # piece by piece.
            slow = self.staging or (silent and not self._tries)
            after = State.SLOW if slow else State.BACK
            self._go(now_s, after, why, self.staging)

    def _strike(self, now_s: float, why: str) -> None:
        """Counts work that is far later than predicted. After STRIKES times in a row, the state of
        the device gets one step worse.
        """
        self._good = 0
        self._strikes += 1
        aside = self.staging and self.state is State.SLOW
        if self._strikes >= STRIKES and not aside:
            staging = self.state is not State.HEALTHY
            self._go(now_s, State.SLOW, f"late {STRIKES} times in a row: {why}", staging)

    def _doubt(self, now_s: float, why: str, lost: bool) -> None:
        """Notes a fault: the device becomes lost or suspect, or fails its probation."""
        if lost:
            self._go(now_s, State.LOST, why)
        elif self.state is State.PROBATION:
            self.tried(now_s, False, why)
        elif self.state is not State.SUSPECT:
            self._go(now_s, State.SUSPECT, why, self.staging)

    def _go(self, now_s: float, after: State, why: str, staging: bool = False) -> None:
        self._story.append(Transition(now_s, self.state, after, why))
        self.state, self.staging = after, staging and after is not State.LOST
        self._strikes = self._good = 0
        self.try_at_s = math.inf
        if after is State.HEALTHY:
            self._failures = self._tries = 0
        elif after is State.LOST or (after is State.SLOW and staging):
            if after is State.LOST:
                self.idle(now_s)
            if after is State.SLOW or self._tries < TRIES:
                self.try_at_s = now_s + wait_s(self._tries, self._chance.random())
