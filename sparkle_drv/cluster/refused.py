"""The error that ends a session before it begins, with one clear line for both ends."""

from __future__ import annotations

from sparkle_drv.errors import DeviceNotFound


class Refused(DeviceNotFound):
    """A node, certificate or message was not accepted; the text says why."""
