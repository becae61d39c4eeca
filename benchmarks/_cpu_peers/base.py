"""The interface of a peer, a library that is compared. Its method `ways` yields nothing for a case
that the peer cannot compute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .cases import Case, all_cases

Operands = Mapping[str, Any]
"""numpy arrays by name, C-contiguous: a, b of a gemm; x, w of a convolution; x, y, z of a map."""


@dataclass(frozen=True)
class Way:
    """One way to compute a case, as users of the peer write it.

    `statement` is Python text that computes the case once, with `names` as its globals. It is timed
    without a function call around it. `result()` returns the result of the last run: a numpy array
    in the reference's layout, which is [m, n], NCHW or [n].

    A way that has no counterpart in the reference, such as a copy, checks its own values: its
    `result()` raises ValueError if they are wrong, and returns None. The first `early` calls of a
    way may run other code than later calls. The first call after them is therefore the one that is
    verified. `poison()` overwrites the results of earlier calls. `clock` returns the time in
    seconds.
    """

    statement: str
    names: Mapping[str, Any]
    result: Callable[[], Any | None]
    early: int = 0
    poison: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.perf_counter


Named = tuple[str, Callable[[], Way]]
"""The name of a way, and the function that prepares the way: packs the weights, compiles,
allocates."""


class Peer:
    """One library that is compared. The object is made in a process of its own."""

    def start(self, threads: int) -> str:
        """Imports the library and sets its number of threads. Returns its version. Raises
        ImportError if it is not installed.
        """
        raise NotImplementedError

    def find(self, name: str) -> Any:
        """Returns the case of this name. Raises KeyError if there is none."""
        return all_cases()[name]

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        """Returns the ways in which the peer computes a case. The result is empty if the peer
        cannot compute the case.
        """
        raise NotImplementedError
