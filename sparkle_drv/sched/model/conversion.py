"""A change of layout before the work of a call, as part of the call's plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkle_drv.core.device import Device

from .operations import Class


@dataclass(frozen=True)
class Conversion:
    """A change of an operand's layout, made before the work on the same device."""

    at: int
    """Index of the operand."""
    kind: Class
    nbytes: int
    """Bytes of the result of the change."""
    run: Callable[[Device, Any], Any]
    """Takes a device and the operand there. Returns the operand in the wanted layout."""
