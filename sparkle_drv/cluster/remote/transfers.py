"""Uploads and downloads. Small ones are part of a request. Larger ones go in pieces, and each piece
is a submission. The network thus carries one piece while the node's device copies the previous one.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from sparkle_drv import plugin
from sparkle_drv.cluster.remote.line import RemoteTimeline, RemoteWork
from sparkle_drv.cluster.remote.mirror import Mirrors
from sparkle_drv.cluster.remote.session import ClientSession
from sparkle_drv.cluster.wire.requests import INLINE

PIECE = 8 << 20
"""Bytes of one submission at most."""
UNDER_WAY = 4
"""Pieces in flight at most; a further one is copied only once one has arrived."""
FULL_S = 0.1
"""Seconds that a new upload waits for room before it fails with -EAGAIN."""
STUCK_S = 30.0
"""Seconds that the second and later pieces wait."""


class Transfers:
    """The transfers of one open device."""

    def __init__(self, session: ClientSession, queues: plugin.Queues, mirrors: Mirrors) -> None:
        self._session, self._queues, self._mirrors = session, queues, mirrors
        # Buffers for copies of uploaded data. They are reused, since to allocate one costs more
        # than the copy into it.
        self._pieces: list[bytearray] = []

    def upload(self, queue: plugin.Timeline, address: int, data: memoryview) -> int:
        """Uploads a copy of `data`. Returns the timeline value of the last piece, or -errno."""
        value, stuck_s = queue.submitted, time.monotonic() + STUCK_S
        for at in range(0, data.nbytes, PIECE):
            start = partial(self._write, address + at, data[at : at + PIECE])
            value = self._given(queue, start)
            # Retries a later piece here. With EAGAIN, the caller would begin the whole upload
            # again.
            while value == -errno.EAGAIN and at:
                if time.monotonic() >= stuck_s:
                    return -errno.ETIMEDOUT
                value = self._given(queue, start)
            if value < 0:
                break
        return value

    def download(self, queue: plugin.Timeline, address: int, out: memoryview) -> int:
        """Starts a download. Returns the timeline value of the last piece, or -errno. `out` has the
        bytes once this value is reached.
        """
        value = queue.submitted
        for at in range(0, out.nbytes, PIECE):
            piece = out[at : at + PIECE]
            value = self._queues.give(queue, partial(self._read, address + at, piece))
            if value < 0:
                break
        return value

    def _given(self, queue: plugin.Timeline, start: Callable[[RemoteTimeline], plugin.Work]) -> int:
        channel, end_s = self._session.channel, time.monotonic() + FULL_S
        while channel.unsent() >= UNDER_WAY and not channel.ended:
            if time.monotonic() >= end_s:
                return -errno.EAGAIN
            channel.flush()
            time.sleep(0.001)
        return self._queues.give(queue, start)

    def _write(self, address: int, data: memoryview, line: RemoteTimeline) -> plugin.Work:
        session, transfer, inline = self._session, 0, None
        session.check()
        if data.nbytes <= INLINE:
            inline = bytes(data)
        else:
            transfer = session.number()
            piece = self._pieces.pop() if self._pieces else bytearray(PIECE)
            copy = memoryview(piece)[: data.nbytes]
            # this copy releases the GIL
            np.copyto(np.frombuffer(copy, np.uint8), np.frombuffer(data, np.uint8))
            session.channel.send_bulk(transfer, copy, partial(self._back, piece))
        value = session.give(
            line, "write", address=address, data=inline, transfer=transfer, nbytes=data.nbytes
        )
        return RemoteWork(line, value, 0, self._mirrors)

    def _back(self, piece: bytearray) -> None:
        if len(self._pieces) < UNDER_WAY:
            self._pieces.append(piece)

    def _read(self, address: int, out: memoryview, line: RemoteTimeline) -> plugin.Work:
        self._session.check()
        return RemoteWork(line, self._session.read(line, address, out), 0, self._mirrors)
