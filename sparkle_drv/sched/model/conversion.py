"""A change of layout before a call's work, as part of its plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkle_drv.core.device import Device

from .operations import Class


@dataclass(frozen=True)
class Conversion:
    """A change of layout that an operand goes through where the work is done, before it."""

    at: int
    """Which of the operands."""
    kind: Class
    nbytes: int
    """Bytes of what it makes."""
    run: Callable[[Device, Any], Any]
    """(device, the operand there) -> as the work wants it."""
