"""Linked programs, kept on disk under SPARKLE_HOME/egl/programs.

The name of a file depends on everything that a program depends on: driver, source, entry. A file is
written under a temporary name and then renamed. A truncated or altered file does not match its
checksum and counts as absent. A cache that cannot be read or written is ignored, so that a load
never fails by the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import struct
from pathlib import Path

from sparkle_drv.saved_files import replace

_MAGIC = b"SPEGL\x00\x01\n"
_HEAD = struct.Struct("<8sI32s")  # magic, the driver's format number, SHA-256 of the program
_MOST_FILES = 1024
_log = logging.getLogger("sparkle_drv.egl")


class ProgramCache:
    """The stored programs of one driver. Any thread and several processes may use the cache."""

    def __init__(self, home: str, driver: tuple[str, ...]) -> None:
        self.folder = Path(home) / "egl" / "programs"
        self._driver = driver

    def path(self, *parts: bytes) -> Path:
        """Returns the path of the file for the program that this driver links from `parts`, such as
        the source.
        """
        digest = hashlib.sha256()
        for part in (*(text.encode() for text in self._driver), *parts):
            digest.update(struct.pack("<Q", len(part)))
            digest.update(part)
        return self.folder / f"{digest.hexdigest()}.bin"

    def get(self, path: Path) -> tuple[int, bytes] | None:
        """Returns the program's format and bytes, or None if the file is missing or damaged."""
        try:
            blob = path.read_bytes()
        except OSError:
            return None
        if len(blob) <= _HEAD.size:
            return None
        magic, number, checksum = _HEAD.unpack_from(blob)
        program = blob[_HEAD.size :]
        if magic != _MAGIC or hashlib.sha256(program).digest() != checksum:
            _log.info("%s is damaged and is ignored", path)
            return None
        return number, program

    def put(self, path: Path, number: int, program: bytes) -> None:
        head = _HEAD.pack(_MAGIC, number, hashlib.sha256(program).digest())
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace(path, head + program)
            self._prune()
        except OSError as error:
            _log.info("the program cache cannot be written: %s", error)

    def drop(self, path: Path) -> None:
        """Deletes a program that the driver no longer accepts."""
        with contextlib.suppress(OSError):
            path.unlink()

    def _prune(self) -> None:
        """Deletes all but the newest files."""
        names = [entry for entry in os.scandir(self.folder) if entry.name.endswith(".bin")]
        if len(names) > _MOST_FILES:
            names.sort(key=lambda entry: entry.stat().st_mtime_ns)
            for entry in names[: len(names) - _MOST_FILES // 2]:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
