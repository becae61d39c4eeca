"""The interface of a peer. What one cannot compute is not among its ways."""

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

    `statement` is Python text that computes once, with `names` as its globals: it is timed as it
    stands, without a call around it. `result()` is the result of the last one, a numpy array in
    the layout of the reference: [m, n], NCHW or [n]. One that is None computes something else, and
    has raised ValueError where that was wrong. A way that does something else in its first
    `early` calls is verified in the one after them; `poison()` spoils what was computed before.
    """

    statement: str
    names: Mapping[str, Any]
    result: Callable[[], Any | None]
    early: int = 0
    poison: Callable[[], object] = lambda: None


Named = tuple[str, Callable[[], Way]]
"""A way's name, and what prepares it: packs the weights, compiles, allocates."""


class Peer:
    """One library. Made in a process of its own."""

    def start(self, threads: int) -> str:
        """Imports it and sets how many threads it works with; its version. ImportError: absent."""
        raise NotImplementedError

    def ways(self, case: Case, operands: Operands) -> Iterable[Named]:
        """The ways that it has for a case; none: it cannot."""
        raise NotImplementedError
