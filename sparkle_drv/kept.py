"""What is kept on disk between runs: files replaced whole, and JSON files with an entry a device.

A file is written beside its place and moved there, so nobody meets half of one; who changes a JSON
file reads, changes and moves under a lock. Which facts an entry holds is its owner's business:
tuned.json (ops/tiles/tuned.py), profile.json (sched/model/profile.py), rates.json
(backends/rates.py). Programs of egl have files of their own.
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
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SCHEMA = 1
LOCK_TIMEOUT_S = 10.0


def replace(path: Path, content: bytes, mode: int = 0o600, sync: bool = False) -> None:
    """Write beside the place and rename; `mode` less the umask. The folder must be there. With
    `sync` the file outlives a power cut. Raises OSError, and then nothing has changed.
    """
    name = path.with_name(f".new-{os.getpid()}-{secrets.token_hex(6)}")
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
                if sync:
                    file.flush()
                    os.fsync(fd)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # the caller's name for it


def _opened(path: Path, flags: int) -> int:
    """A descriptor of a regular file. Raises OSError, of anything else too: to open a pipe as usual
    takes until somebody opens its other end.
    """
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return fd


def put(path: Path, content: bytes, sync: bool = False) -> bool:
    """Write a file that a person asked for. True: a regular file was made or replaced.

    A regular file is replaced whole. The new file has no permission that the old one had not; where
    there was none, the umask decides. A symbolic link is followed. A pipe or a device is written
    directly. So is a file that is this process's stdout or stderr: to replace it would lose what
    was printed. With `sync` a regular file outlives a power cut. Raises OSError, also for a file
    without write permission and for a pipe without a reader.
    """
    if is_stream(path):
        _write_directly(path, content)
        return False
    place = Path(os.path.realpath(path))
    if place.is_symlink():  # realpath leaves a link in place only where links form a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    mode = 0o666
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(os.stat(place).st_mode)
        if not os.access(place, os.W_OK):  # renaming would not ask
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    replace(place, content, mode, sync)
    return True


def is_stream(path: Path) -> bool:
    """Is it no regular file, or what stdout or stderr goes to? Such a target takes a text once: it
    can neither be replaced nor begun anew. Raises OSError, but not for a file that is not there.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(found.st_mode) or _standard(found) is not None


def _standard(found: os.stat_result) -> int | None:
    """The descriptor, of stdout and stderr, that is this file."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            if os.path.samestat(found, os.fstat(descriptor)):
                return descriptor
    return None


def _write_directly(path: Path, content: bytes) -> None:
    descriptor = _standard(os.stat(path))
    if descriptor is None:
        # Without O_NONBLOCK, opening a pipe would wait for a reader.
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        os.set_blocking(fd, True)
    else:
        # Opening a file anew would overwrite what was printed to it before.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        fd = os.dup(descriptor)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


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

    def read(self, write: bool = False) -> dict[str, Any]:
        """The entries; {} when there is no file, or none that can be used.

        A damaged file is set aside with a warning. A file of another schema is set aside only if
        `write`: the caller is about to replace it. What is no regular file is left alone.
        """
        try:
            with os.fdopen(_opened(self.path, os.O_RDONLY), "rb") as file:
                text = file.read()
        except OSError:
            return {}
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:  # of another version of this package
                if write:
                    self._set_aside(f"is of schema {document['schema']}, expected {SCHEMA}", "kept")
                return {}
            devices = document["devices"]
            if isinstance(devices, dict) and all(self._sane(one) for one in devices.values()):
                return dict(devices)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        self._set_aside("is damaged", "damaged")
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
            devices = self.read(write=True)
            document = {"schema": SCHEMA, "devices": {**devices, key: change(devices.get(key))}}
            replace(self.path, (json.dumps(document, indent=1) + "\n").encode())

    def _set_aside(self, why: str, ending: str) -> None:
        aside = self.path.with_name(f"{self.path.name}.{ending}")
        try:
            os.replace(self.path, aside)
        except OSError as error:
            self._log.warning("%s %s and is not used: %s", self.path, why, error)
        else:
            self._log.warning("%s %s and is not used; it is %s now", self.path, why, aside.name)
