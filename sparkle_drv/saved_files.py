"""Writes files that outlive the process. Some are replaced whole; others are JSON files with an
entry per device.

A file is written under another name and then renamed, so nobody reads half of it. A JSON file is
read, changed and renamed under a lock. Other modules define the entries: tuned.json
(ops/tiles/tuned_plans.py), profile.json (sched/model/profile.py), rates.json (backends/rates.py).
Compiled programs of the egl backend have separate files.
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
    """Writes `content` under another name and renames the file to `path`.

    The permissions are `mode` without the bits of the umask. The folder must exist. With `sync` the
    new content survives a power cut once this function returns. If this function raises OSError,
    nothing has changed. One exception: if `sync` fails on the folder, the file has the new content,
    but a power cut may bring the old one back.
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
        if sync:
            sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # the error names `path`


def sync_folder(folder: Path) -> None:
    """Makes new names in `folder` survive a power cut: until then, a rename may be undone by it.
    Does nothing on a file system that cannot do this. Raises OSError.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


def _opened(path: Path, flags: int) -> int:
    """Returns a descriptor of a regular file. Raises OSError, also for any other kind of file.

    O_NONBLOCK is set, because opening a pipe would wait until its other end is open.
    """
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "expected a regular file, got another kind of file", str(path))
    return fd


def put(path: Path, content: bytes, sync: bool = False) -> bool:
    """Writes a file that a person asked for. Returns True if a regular file was made or replaced.

    A regular file is replaced whole. The new file has at most the permissions of the old one. If
    there was no old file, the umask decides. A symbolic link is followed. A pipe or a device is
    written directly. The file of this process's stdout or stderr is written directly too, because
    replacing it would lose what was printed. With `sync` a regular file survives a power cut.
    Raises OSError, also for a file without write permission and for a pipe without a reader.
    """
    if is_stream(path):
        _write_directly(path, content)
        return False
    place = Path(os.path.realpath(path))
    if place.is_symlink():  # realpath resolves links unless they form a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    mode = 0o666
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(os.stat(place).st_mode)
        if not os.access(place, os.W_OK):  # a rename would replace even a read-only file
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    replace(place, content, mode, sync)
    return True


def is_stream(path: Path) -> bool:
    """Returns whether `path` is a pipe, a device, or the file of stdout or stderr.

    Such a target cannot be replaced, only written to. The result is False for a file that does not
    exist. Raises OSError if `path` cannot be looked up for another reason.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(found.st_mode) or _standard(found) is not None


def _standard(status: os.stat_result) -> int | None:
    """Returns 1 if the file is that of stdout, 2 if it is that of stderr, else None."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # stdout or stderr is closed
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


def _write_directly(path: Path, content: bytes) -> None:
    descriptor = _standard(os.stat(path))
    if descriptor is None:
        # Without O_NONBLOCK, opening a pipe would wait for a reader.
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        os.set_blocking(fd, True)
    else:
        # `path` is the file of stdout or stderr, so the write uses a duplicate of that descriptor.
        # Opening the path again would write from the file's start, over what was printed.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        fd = os.dup(descriptor)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


@contextlib.contextmanager
def locked(path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Holds the lock of the file at `path` against other threads and processes.

    The lock is a second file in the same folder. Raises OSError if that file cannot be opened or
    locked. Raises TimeoutError if another thread or process holds the lock for longer than
    `timeout_s` seconds.
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
                    raise TimeoutError(
                        f"{name}: expected the lock within {timeout_s:g} s, but another thread or "
                        "process holds it"
                    ) from None
                time.sleep(0.01)
        yield


class DeviceFile:
    """A JSON file with an entry per device, under keys that the caller chooses.

    Any thread and process may use the file. `sane` says whether an entry is valid; a file with an
    invalid entry counts as damaged.
    """

    def __init__(
        self, path: Path, log: logging.Logger, sane: Callable[[Any], bool] = lambda _: True
    ) -> None:
        self.path, self._log, self._sane = path, log, sane

    def read(self, write: bool = False) -> dict[str, Any]:
        """Returns the entries, or {} if there is no usable file.

        A damaged file is renamed, with a warning. A file of another schema is renamed only with
        `write`, which says that the caller will replace the file. A pipe or device is left alone.
        """
        try:
            with os.fdopen(_opened(self.path, os.O_RDONLY), "rb") as file:
                text = file.read()
        except OSError:
            return {}
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:  # written by another version of this package
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
        """Replaces the entry under `key` by change(entry); `entry` is None if there is no entry.

        Raises the errors of `locked`, and OSError if the file is not a regular file.
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
