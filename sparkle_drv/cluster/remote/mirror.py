"""Mirrors: local copies of a remote device's memory, for memory that the client maps.

A mirror behaves like memory that the client and the node's device share. Before each submission,
the client's changes are uploaded. Before a submission counts as reached, the device's changes are
downloaded.

Each upload compares all mapped bytes and sends the changed ones. Each download transfers and
compares all mapped bytes. So map only flags and small results.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkle_drv.cluster.remote.line import RemoteTimeline
from sparkle_drv.cluster.remote.session import SILENT_S, ClientSession
from sparkle_drv.errors import DeviceLost

if TYPE_CHECKING:
    import numpy as np

MAP_S = 30.0
"""Seconds that `map` waits for the bytes."""
NEAR = 64
"""While no work is in flight, changes that are at most NEAR bytes apart travel as one."""


class Mirror:
    """The client's copy of one allocation of the node. The caller reads and writes `now`. `base` is
    the content that client and node last had in common. A download writes the bytes of the node
    into `came`, before they are compared with `base`.
    """

    def __init__(self, address: int, nbytes: int) -> None:
        import numpy as np

        self.address = address
        self.now = np.zeros(nbytes, np.uint8)
        self.base = np.zeros(nbytes, np.uint8)
        self.came = np.zeros(nbytes, np.uint8)
        self._view: weakref.ref[Any] = lambda: None  # type: ignore[assignment]

    def view(self) -> Any:
        """Returns the array through which the caller reads and writes the mirror.

        A memoryview keeps this array alive. So `held` stays true while a memoryview of it exists.
        """
        view = self._view()
        if view is None:
            view = self.now[:]
            self._view = weakref.ref(view)
        return view

    @property
    def held(self) -> bool:
        """Whether the caller still has the array that `view` returned."""
        return self._view() is not None

    def merge(self) -> None:
        """Copies into `now` those bytes of `came` that the node's device has changed. They replace
        what the client wrote to the same bytes meanwhile.
        """
        theirs = self.came != self.base
        self.now[theirs] = self.came[theirs]
        self.base[theirs] = self.came[theirs]

    def changes(self, near: int) -> list[tuple[int, np.ndarray[Any, Any]]]:
        """Returns (offset, bytes) of each range that the client has changed. Changes at most `near`
        bytes apart form one range.
        """
        import numpy as np

        at = np.flatnonzero(self.now != self.base)
        if not at.size:
            return []
        cuts = np.flatnonzero(np.diff(at) > near)
        begins, ends = at[np.r_[0, cuts + 1]], at[np.r_[cuts, at.size - 1]] + 1
        return [
            (begin, self.now[begin:end].copy())
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]


class Mirrors:
    """The mirrors of one open device."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._mirrors: dict[int, Mirror] = {}
        self._line: RemoteTimeline | None = None
        self._merged: dict[RemoteTimeline, int] = {}
        self._coming: tuple[int, dict[RemoteTimeline, int]] | None = None
        """(the value that ends the reads in progress, line -> the value that they include)."""

    def __bool__(self) -> bool:
        return bool(self._mirrors)

    def start(self) -> None:
        """Opens a queue of the remote device, which the mirrors use to read its memory."""
        self._line = self._session.open_line(False, wait=False)

    def map(self, address: int, nbytes: int) -> Any:
        """Returns a view of the memory at `address`. Call `send` first, so that the node's memory
        has all changes that the client made.
        """
        with self._lock:
            mirror = self._mirrors.get(address) or Mirror(address, nbytes)
            self._settle(self._read([mirror]))
            mirror.merge()
            self._mirrors[address] = mirror
            return mirror.view()

    def forget(self, address: int) -> None:
        """Drops the mirror of freed memory. Its views keep their bytes."""
        self._mirrors.pop(address, None)

    def send(self, upload: Callable[[int, memoryview], int], working: bool) -> int:
        """Sends the client's changes to the node's device. Then drops each mirror whose array the
        client no longer holds. Returns 0 or the first -errno of an upload.
        """
        with self._lock:
            for address, mirror in list(self._mirrors.items()):
                # `in_use` is read before `changes`. The caller may drop its array of the mirror in
                # between. Then the mirror is kept, and the next `send` sends the last changes.
                in_use = mirror.held
                for at, data in mirror.changes(0 if working else NEAR):
                    value = upload(address + at, data.data)
                    if value < 0:
                        return value
                    mirror.base[at : at + data.nbytes] = data
                if not in_use:
                    self._mirrors.pop(address, None)
        return 0

    def caught_up(self, line: RemoteTimeline, value: int) -> bool:
        """Returns whether every mirror contains the results of `line`'s submission `value`. If
        not, starts a download into all mirrors. Never blocks.
        """
        if not self._mirrors or self._session.channel.ended:
            return True
        # a finalizer may call `caught_up` while its own thread holds the lock
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._coming is not None and self._done(self._coming[0]):
                for mirror in list(self._mirrors.values()):
                    mirror.merge()
                self._merged.update(self._coming[1])
                self._coming = None
            if self._merged.get(line, 0) >= value:
                return True
            if self._coming is None:
                seen = {**self._merged, line: line.done}
                self._coming = self._read(list(self._mirrors.values())), seen
        finally:
            self._lock.release()
        return False

    def closed(self, line: RemoteTimeline) -> None:
        """Forgets a queue that has ended."""
        self._merged.pop(line, None)

    def _read(self, mirrors: list[Mirror]) -> int:
        assert self._line is not None
        value = self._line.submitted
        for mirror in mirrors:
            value = self._session.read(self._line, mirror.address, mirror.came.data)
        return value

    def _done(self, value: int) -> bool:
        return self._line is not None and self._line.done >= value

    def _settle(self, value: int) -> None:
        """Waits until the downloads into mirrors have ended, up to the timeline value `value`.
        Raises DeviceLost if the session ends, or if the bytes do not arrive within MAP_S seconds.
        """
        session, left_s = self._session, MAP_S
        while not self._done(value):
            mark = session.mark()
            if session.channel.ended or left_s <= 0:
                words = session.words or f"expected the bytes within {MAP_S:g} s, got none"
                raise DeviceLost(f"{session.uri}: map: {words}")
            if not self._done(value):
                session.wait(self._line, mark, SILENT_S)
                left_s -= SILENT_S if session.mark() == mark else 0
