"""Health: one device as a state machine with the story of every transition. Pure.

It is fed with progress of the device's pieces; without progress, with heartbeats (NOP submits that
the runner makes when `due`). A running submission within its deadline is not silence. A device
whose heartbeats come back is slow at worst, never lost. The class has no lock: threads that share
one hold a lock of theirs around each call, and read the clock (any that only grows) inside of it.
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

    `heartbeat_s`: silence until a heartbeat is due, and how long its answer may take; `missed`:
    heartbeats without an answer in a row until the device is lost; `seed`: of the jitter.
    """

    def __init__(self, uri: str, heartbeat_s: float = 0.5, missed: int = 4, seed: int = 0) -> None:
        """Raises ValueError for a heartbeat or a number of them that is not above 0."""
        if not heartbeat_s > 0:
            raise ValueError(f"expected heartbeat_s above 0, got {heartbeat_s}")
        if missed < 1:
            raise ValueError(f"expected missed of 1 or more, got {missed}")
        self.uri, self.heartbeat_s, self.missed = uri, heartbeat_s, missed
        self.state = State.HEALTHY
        self.staging = False
        """Slow twice over: no share of the work, but bytes may be staged there. Kept while it is
        suspect or tried."""
        self.try_at_s = math.inf
        """When to try a device that is lost or only staging; inf: there is nothing to try, or it
        is gone for good (TRIES)."""
        self._story: deque[Transition] = deque(maxlen=STORY)
        self._chance = Random(f"{seed} {uri}")
        self._since = -math.inf  # silence counts from here: the last sign of life, or first work
        self._works = False
        self._begun = self._deadline = -math.inf  # of the submission that may end last
        self._misses = self._strikes = self._good = self._failures = self._tries = 0

    @property
    def story(self) -> tuple[Transition, ...]:
        """The last STORY transitions, oldest first."""
        return tuple(self._story)

    @property
    def why(self) -> str:
        """Why it is in its state."""
        return self._story[-1].why if self._story else "nothing has gone wrong yet"

    @property
    def weight(self) -> float:
        """Share of what a plan gives this device, in 0..1; 0: no new pieces.

        When no device of a mesh has a share, those that are slow still compute right results.
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
        """May it get pieces of a call now?"""
        return self.weight > 0

    def started(self, now_s: float, deadline_s: float) -> None:
        """A submission runs there, predicted to end by `deadline_s` (what is queued before it
        counted in). Until the latest such deadline nothing is silence."""
        if self.state is State.LOST:
            return
        if not self._works:
            self._works, self._since = True, max(self._since, now_s)
        if deadline_s > self._deadline:
            self._begun, self._deadline = now_s, deadline_s

    def idle(self, now_s: float) -> None:
        """Nothing is submitted or waited for there: it misses nothing. The next `started` begins
        to count silence anew. A suspect device keeps its heartbeats, to be cleared by one."""
        self._works, self._deadline = False, -math.inf

    def progress(self, now_s: float, took_s: float, predicted_s: float) -> None:
        """A piece ended, in `took_s`; without a prediction (0) that is a sign of life alone."""
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
        """Is a heartbeat due? Ask when none is on its way.

        It is when a device has work, was silent for `heartbeat_s`, and is past its deadline; at
        once when it is suspect.
        """
        if self.state is State.LOST:
            return False
        silent = now_s - self._since >= self.heartbeat_s and now_s > self._deadline
        return self.state is State.SUSPECT or (self._works and silent)

    def beat(self, now_s: float) -> None:
        """A heartbeat came back: the device is alive, though its work may be late."""
        if self.state is State.LOST:
            return
        self._alive(now_s, "a heartbeat came back")
        running_s, predicted_s = now_s - self._begun, self._deadline - self._begun
        if self._works and running_s > FAR * predicted_s + MARGIN_S:
            said = f"it answers, but its work runs for {running_s:.3g} s"
            self._strike(now_s, f"{said}, predicted {predicted_s:.3g} s")

    def missed_beat(self, now_s: float) -> None:
        """A heartbeat did not come back within `heartbeat_s`. It does not count when there was a
        sign of life within that time, when a submission is within its deadline, or when the
        device has no work and is not suspect."""
        wanted = self._works or self.state is State.SUSPECT
        heard = now_s - self._since < self.heartbeat_s or now_s <= self._deadline
        if self.state is State.LOST or not wanted or heard:
            return
        self._misses += 1
        s = "s in a row" if self._misses > 1 else ""
        why = f"no answer to {self._misses} heartbeat{s}"
        self._doubt(now_s, why, self._misses >= self.missed)

    def failed(self, now_s: float, why: str, gone: bool = False) -> None:
        """A call failed there, by a fault of the device. `gone`: it says itself that it is lost."""
        if self.state is State.LOST:
            return
        self._failures += 1
        many = self._failures >= FAILURES
        times = f"failure {self._failures} without being healthy in between: " if many else ""
        self._doubt(now_s, times + why, gone or many)

    def tries(self, now_s: float) -> bool:
        """Begins probation; False: it is not time, or it is being tried already.

        Whoever gets True tries the device and says how it went: `tried`. If the device was lost,
        a call with a known result will do; if it was staging, a piece, since a NOP says nothing of
        its speed.
        """
        if now_s < self.try_at_s:
            return False
        self._misses = 0
        self._tries += 1
        why = f"try {self._tries} since it was healthy"
        self._go(now_s, State.PROBATION, why, self.staging)
        return True

    def tried(self, now_s: float, well: bool, why: str = "") -> None:
        """How the try went; ignored when the device is not in probation any more."""
        if self.state is not State.PROBATION:
            return
        if well:
            self._go(now_s, State.BACK, why or "the try went well")
        else:
            after = State.SLOW if self.staging else State.LOST
            self._go(now_s, after, f"the try failed: {why}" if why else "the try failed", True)

    def explain(self) -> str:
        """The state in one line, then the story, one line a transition."""
        aside = self.staging and self.state is State.SLOW
        share = "only staging" if aside else f"share {self.weight:.3g}"
        first = f"{self.uri}: {self.state.value}, {share}: {self.why}"
        if aside or self.state is State.LOST:
            gone = math.isinf(self.try_at_s)
            first += "; gone for good" if gone else f"; tried at {self.try_at_s:.3f} s"
        return "\n".join([first, *(f"  {step}" for step in self._story)])

    def _alive(self, now_s: float, why: str) -> None:
        """A sign of life: silence counts from now; a suspect device is cleared."""
        silent, self._misses = self._misses > 0, 0
        self._since = max(self._since, now_s)
        if self.state is State.SUSPECT:
            slow = self.staging or (silent and not self._tries)  # tried: its share must grow again
            after = State.SLOW if slow else State.BACK
            self._go(now_s, after, why, self.staging)

    def _strike(self, now_s: float, why: str) -> None:
        """Its work is late once more: in a row, that takes it one step down."""
        self._good = 0
        self._strikes += 1
        aside = self.staging and self.state is State.SLOW
        if self._strikes >= STRIKES and not aside:
            staging = self.state is not State.HEALTHY
            self._go(now_s, State.SLOW, f"late {STRIKES} times in a row: {why}", staging)

    def _doubt(self, now_s: float, why: str, lost: bool) -> None:
        """Something is wrong: lost, or suspect; in probation, the try has failed."""
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
