"""Looks at a share of all results, drawn by chance, wherever they are (validate.py)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import ContextArray
from .constants import ContextConstant
from .validate import Check

SEED = 0x5EED


class Inspector:
    """Draws which results are looked at: `share` of them, alike in each process."""

    def __init__(self, share: float) -> None:
        self.share = share
        self._random = random.Random(SEED)
        self.chance = np.random.default_rng(SEED)

    def due(self) -> bool:
        """Is the result of the call that begins now one of them?"""
        return self._random.random() < self.share

    def look(self, check: Check, operands: Sequence[Any], result: Any) -> str:
        """What is wrong with it, "" when nothing is. Waits for it."""
        given = [None if x is None else _host(x) for x in operands]
        return check(_host(result), given, self.chance)


def apart(x: Any, out: Any) -> Any:
    """An operand, or a copy of it on the host when writing `out` would change it."""
    if x is None or isinstance(x, ContextConstant):
        return x
    if isinstance(x, ContextArray) or isinstance(out, ContextArray):
        return np.array(x.numpy()) if x is out and isinstance(x, ContextArray) else x
    return x.copy() if np.may_share_memory(x, out) else x


def _host(x: Any) -> np.ndarray[Any, Any]:
    return x.numpy() if isinstance(x, ContextArray) else np.asarray(x)
