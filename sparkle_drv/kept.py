"""What is kept on disk between runs: files replaced whole, and JSON files with an entry a device.

A file is written beside its place and moved there, so nobody meets half of one; who changes a JSON
file reads, changes and moves under a lock. Which facts an entry holds is its owner's business
(ops/tuned.py, the bench's roofs); programs of egl have files of their own.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SCHEMA = 1
LOCK_TIMEOUT_S = 10.0


def replace(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write beside the place and rename; `mode` less the umask. The folder must be there. Raises
    OSError.
    """
    name = path.with_name(f".new-{os.getpid()}-{secrets.token_hex(6)}")
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        error.filename = str(path)  # of which somebody knows
        raise
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _opened(path: Path, flags: int) -> int:
    """A descriptor of a regular file. Raises OSError, of anything else too: to open a pipe as usual
    takes until somebody opens its other end.
    """
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return fd


def put(path: Path, content: bytes) -> bool:
    """Write where a person asks for it: a regular file, or what is not there yet, is replaced
    whole, with the umask's mode; a symbolic link is followed; anything else (a pipe, a device) is
    written through. Was it the former? Raises OSError: a pipe that nobody reads, too.
    """
    place = Path(os.path.realpath(path))
    if not place.exists() or place.is_file():
        replace(place, content, 0o666)
        return True
    fd = os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # else it waits for a reader
    os.set_blocking(fd, True)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    return False


@contextlib.contextmanager
def locked(path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Alone, among threads and processes, with the file at `path`, by a lock file beside it.

    Raises OSError: TimeoutError when another holds it for longer than `timeout_s`.
    """
    name = path.with_name(f".{path.stem}.lock")
    with os.fdopen(_opened(name, os.O_RDWR | os.O_CREAT), "r+") as lock:
        end = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise TimeoutError(f"{name} is held for {timeout_s:g} s") from None
                time.sleep(0.01)
        yield


class DeviceFile:
    """A JSON file with an entry for each device, by its owner's keys. Any thread, any process.

    `sane`: can this entry be what its owner wrote? A file with another one is damaged.
    """

    def __init__(
        self, path: Path, log: logging.Logger, sane: Callable[[Any], bool] = lambda _: True
    ) -> None:
        self.path, self._log, self._sane = path, log, sane

    def read(self) -> dict[str, Any]:
        """The entries; {} when there is no file, or none that can be used.

        A damaged file is set aside with a warning; one of another schema is left alone, and so is
        what is no regular file.
        """
        try:
            with os.fdopen(_opened(self.path, os.O_RDONLY), "rb") as file:
                text = file.read()
        except OSError:
            return {}
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                return {}  # of another version of this package: not ours to judge
            devices = document["devices"]
            if isinstance(devices, dict) and all(self._sane(one) for one in devices.values()):
                return dict(devices)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        self._set_aside()
        return {}

    def update(
        self, key: str, change: Callable[[Any], Any], timeout_s: float = LOCK_TIMEOUT_S
    ) -> None:
        """Put what `change` makes of the entry (None where there is none). Raises OSError, as
        `locked` does, and where there is something that is no regular file.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path, timeout_s):
            with contextlib.suppress(FileNotFoundError):
                os.close(_opened(self.path, os.O_RDONLY))
            devices = self.read()
            document = {"schema": SCHEMA, "devices": {**devices, key: change(devices.get(key))}}
            replace(self.path, (json.dumps(document, indent=1) + "\n").encode())

    def _set_aside(self) -> None:
        aside = self.path.with_name(self.path.name + ".damaged")
        try:
            os.replace(self.path, aside)
        except OSError as error:
            self._log.warning("%s is damaged and is not used: %s", self.path, error)
        else:
            self._log.warning("%s is damaged and is not used; it is %s now", self.path, aside.name)
