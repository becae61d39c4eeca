"""Timestamp: eight bytes into which a command list writes the device clock."""

from __future__ import annotations

import sys

from sparkle_drv.core.buffer import Buffer
from sparkle_drv.types import Memory


class Timestamp:
    """A time of the device clock, made by `Device.timestamp`, written by `Commands.timestamp`.

    `buffer` is the memory of the timestamp.

    >>> before, after, x = dev.timestamp(), dev.timestamp(), dev.buffer(64)
    >>> work = sp.Commands().timestamp(before).fill(x, 0).timestamp(after)
    >>> dev.default_queue.submit(work).wait().done
    True
    >>> after.ns >= before.ns
    True
    """

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        if buffer.memory is Memory.DEVICE:
            raise ValueError("buffer: expected host memory for a timestamp, got Memory.DEVICE")
        self.buffer = buffer

    @property
    def ns(self) -> int:
        """The time that was written, in ns of the device clock; 0 before it is written.

        On cpu this clock is time.monotonic_ns(). Wait for the fence of the command list first.
        Raises ValueError if the timestamp is closed.
        """
        with self.buffer.map() as view:
            return int.from_bytes(view, sys.byteorder)

    def close(self) -> None:
        """Frees the eight bytes of memory that hold the timestamp; a second call does nothing."""
        self.buffer.close()
