"""What is kept on disk between runs: files replaced whole, and JSON files with an entry a device.

A file is written beside its place and moved there, so nobody meets half of one; who changes a JSON
file reads, changes and moves under a lock. Which facts an entry holds is its owner's business
(ops/tuned.py, the bench's roofs); programs of egl have files of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SCHEMA = 1
LOCK_TIMEOUT_S = 10.0


def replace(path: Path, content: bytes) -> None:
    """Write beside the place and rename. The folder must be there. Raises OSError."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def locked(path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Alone, among threads and processes, with the file at `path`, by a lock file beside it.

    Raises OSError: TimeoutError when another holds it for longer than `timeout_s`.
    """
    with open(path.with_name(f".{path.stem}.lock"), "w") as lock:
        end = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise TimeoutError(f"{lock.name} is held for {timeout_s:g} s") from None
                time.sleep(0.01)
        yield


class DeviceFile:
    """A JSON file with an entry for each device, by its owner's keys. Any thread, any process."""

    def __init__(self, path: Path, log: logging.Logger) -> None:
        self.path, self._log = path, log

    def read(self) -> dict[str, Any]:
        """The entries; {} when there is no file, or none that can be used.

        A damaged file is set aside with a warning; one of another schema is left alone.
        """
        try:
            text = self.path.read_bytes()
        except OSError:
            return {}
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                return {}  # of another version of this package: not ours to judge
            if isinstance(document["devices"], dict):
                return dict(document["devices"])
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        self._set_aside()
        return {}

    def update(self, key: str, change: Callable[[Any], Any]) -> None:
        """Put what `change` makes of the entry (None where there is none). Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
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
