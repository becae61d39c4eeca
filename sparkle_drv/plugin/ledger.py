"""QueueLedger: failures and times of the ended submissions of a queue, and which waits report a
failure.

native/core/ledger.c does the same for native backends. The queue's lock guards a QueueLedger.
"""

from __future__ import annotations

from collections import OrderedDict

_TIMES = 4096  # a QueueLedger keeps the times of at most this many submissions
_FAULTS = 1024  # a QueueLedger keeps at most this many failures


class _Failure:
    __slots__ = ("rc", "until", "value", "words")

    def __init__(self, value: int, rc: int, words: str) -> None:
        self.value, self.rc, self.words = value, rc, words
        self.until = 0
        """The last value whose wait reports this failure. 0: no wait has reported it yet, so every
        wait for this or a later value does."""

    def concerns(self, value: int) -> bool:
        return self.value <= value and (not self.until or value <= self.until)


class QueueLedger:
    """The failures and times of one queue's ended submissions."""

    def __init__(self) -> None:
        self._faults: list[_Failure] = []
        self._times: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def failed(self, value: int, rc: int, words: str) -> None:
        """Records that submission `value` failed with -errno `rc`; `words` is the reason."""
        del self._faults[: len(self._faults) - _FAULTS + 1]
        self._faults.append(_Failure(value, rc, words))

    def lasted(self, value: int, span: tuple[int, int]) -> None:
        """Records that submission `value` ran in this span (start, end) in ns."""
        self._times[value] = span
        if len(self._times) > _TIMES:
            self._times.popitem(last=False)

    def times(self, value: int) -> tuple[int, int] | None:
        return self._times.get(value)

    def fault(self, value: int) -> tuple[int, str]:
        """Returns (-errno, text) of the failure that a wait for `value` reports; (0, "") if none.

        A failure of `value` itself comes first, then the oldest failure of an earlier submission.
        """
        met = [f for f in self._faults if f.value == value or f.concerns(value)]
        own = [f for f in met if f.value == value]
        for first in own or met:
            return first.rc, first.words
        return 0, ""

    def tell(self, value: int, newest: int) -> int:
        """Returns the -errno that a wait for submission `value` reports, 0 if nothing failed.

        Also marks the failures up to `value` as reported. `newest` is the last submission so far.
        A failure of a submission before `value` is still reported by waits for submissions up to
        `newest`, but not by waits for later submissions.
        """
        rc = self.fault(value)[0] if self._faults else 0
        for fault in self._faults if rc else ():
            if not fault.until and fault.value <= value:
                fault.until = value if fault.value == value else newest
        return rc
