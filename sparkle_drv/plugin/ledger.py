"""What a queue remembers of submissions that have ended: failures, whom they were told, times.

As native/core/ledger.c keeps it for backends in native code. Not locked: its queue's lock is.
"""

from __future__ import annotations

from collections import OrderedDict

_TIMES = 4096  # submissions whose times are kept
_FAULTS = 1024  # failures that are remembered


class _Fault:
    __slots__ = ("rc", "until", "value", "words")

    def __init__(self, value: int, rc: int, words: str) -> None:
        self.value, self.rc, self.words = value, rc, words
        self.until = 0
        """Waits up to this value meet it; 0: nobody was told yet, every later one does."""

    def concerns(self, value: int) -> bool:
        return self.value <= value and (not self.until or value <= self.until)


class Ledger:
    """Of one queue."""

    def __init__(self) -> None:
        self._faults: list[_Fault] = []
        self._times: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def failed(self, value: int, rc: int, words: str) -> None:
        """Submission `value` ended with -errno `rc`."""
        del self._faults[: len(self._faults) - _FAULTS + 1]
        self._faults.append(_Fault(value, rc, words))

    def lasted(self, value: int, span: tuple[int, int]) -> None:
        """It began and ended then."""
        self._times[value] = span
        if len(self._times) > _TIMES:
            self._times.popitem(last=False)

    def times(self, value: int) -> tuple[int, int] | None:
        return self._times.get(value)

    def fault(self, value: int) -> tuple[int, str]:
        """(-errno, words) of its own failure, else of the oldest that concerns it; (0, "")."""
        met = [f for f in self._faults if f.value == value or f.concerns(value)]
        own = [f for f in met if f.value == value]
        for first in own or met:
            return first.rc, first.words
        return 0, ""

    def tell(self, value: int, newest: int) -> int:
        """The same, and it counts as told; `newest` was submitted last."""
        rc = self.fault(value)[0] if self._faults else 0
        for fault in self._faults if rc else ():
            if not fault.until and fault.value <= value:
                fault.until = value if fault.value == value else newest
        return rc
