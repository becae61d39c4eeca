"""The interface of a peer. A case that it cannot compute has no ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .cases import Case

Operands = Mapping[str, Any]
"""numpy arrays by name, C-contiguous: a, b of a gemm; x, w of a convolution; x, y, z of a map."""


@dataclass(frozen=True)
class Way:
    """One way to compute a case, as users of the peer write it.

    `statement` is Python text that computes once, with `names` as its globals. It is timed without
    a call around it. `result()` is the result of the last run: a numpy array in the layout of the
    reference, [m, n], NCHW or [n]. If `result` is None, the way computes something else, and has
    raised ValueError if that was wrong. A way whose first `early` calls differ is verified in the
    call after them; `poison()` spoils the earlier results.
    """

    statement: str
    names: Mapping[str, Any]
    result: Callable[[], Any | None]
    early: int = 0
    poison: Callable[[], object] = lambda: None


Named = tuple[str, Callable[[], Way]]
"""A way's name, and the function that prepares it: packs the weights, compiles, allocates."""


class Peer:
    """One library. Made in a process of its own."""

    def start(self, threads: int) -> str:
        """Imports it and sets its number of threads. Returns its version. ImportError: absent."""
        raise NotImplementedError

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        """The ways that it has for a case; empty if it cannot compute it."""
        raise NotImplementedError
