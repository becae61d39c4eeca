"""What ends a session before it begins, with one clear line for both ends."""

from __future__ import annotations

from sparkle_drv.errors import DeviceNotFound


class Refused(DeviceNotFound):
    """A node, a certificate or a message that is not accepted; the text says why."""
