"""The error that ends a session before it begins. Both ends get the error's one-line text."""

from __future__ import annotations

from sparkle_drv.errors import DeviceNotFound


class Refused(DeviceNotFound):
    """Raised when a node, certificate or message is not accepted. The text says why."""
