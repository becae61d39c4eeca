"""Checks a random share of all results with validate.py. The caller copies the arrays to
the host.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from .validate import Array, Check

SEED = 0x5EED


class Inspector:
    """Decides at random which calls have their result checked.

    `share` is the fraction of the calls that is checked. The seed is fixed, so each process checks
    the same calls.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self._random = random.Random(SEED)
        self.chance = np.random.default_rng(SEED)

    def due(self) -> bool:
        """Returns whether to check the result of the call that begins now."""
        return self._random.random() < self.share

    def look(self, check: Check, operands: Sequence[Array | None], result: Array) -> str:
        """Returns a description of the error in a result, or "" if the result is right. All arrays
        are on the host.
        """
        return check(result, operands, self.chance)
