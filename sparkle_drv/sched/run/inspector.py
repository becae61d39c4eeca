"""Draws at random the calls whose result is checked."""

from __future__ import annotations

import random

import numpy as np

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
