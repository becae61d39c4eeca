"""The device that rungs use if they call only the public API and make no ioctls: a
`sparkle_drv.Device`. It is opened when first needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import sparkle_drv as sp
from _bringup.causes.api import CAUSES
from _bringup.causes.matching import Cause
from _bringup.results.rung import Rung


class Bench:
    """A `sparkle_drv.Device`, opened by its URI through the public API."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.facts: dict[str, Any] = {"device": uri}
        self.causes: Sequence[Cause] = CAUSES
        self._device: sp.Device | None = None

    def device_api(self) -> sp.Device:
        if self._device is None:
            self._device = sp.open(self.uri)
        return self._device

    def begin(self, rung: Rung) -> None:
        """Does nothing, because rungs of the public API need no preparation."""

    def settle(self) -> None:
        """Does nothing, because rungs close what they make."""

    def recover(self) -> None:
        device, self._device = self._device, None
        if device is not None:
            with contextlib.suppress(Exception):
                device.close()

    def abandon(self) -> None:
        self._device = None

    def autopsy(self, error: BaseException) -> dict[str, Any]:
        submission = getattr(error, "submission", "")
        return {"dump": {"submission": submission}} if submission else {}

    def close(self) -> None:
        self.recover()
