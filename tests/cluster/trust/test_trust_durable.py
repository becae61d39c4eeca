"""Files of certificates survive a power cut, in the order in which they were written.

When this fails, a power cut after `sparkle certs revoke` brings a revoked certificate back.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from sparkle_drv import saved_files
from sparkle_drv.cluster.trust import files
from sparkle_drv.cluster.trust.revocation import Listed, packed


class Disk:
    """What a power cut would leave: calls of os.fsync and os.replace in their order."""

    def __init__(self, monkeypatch):
        self.calls, self.fails_with = [], 0
        self._fsync, self._replace = os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "replace", self.replace)

    def fsync(self, fd):
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        self.calls.append(("folder" if folder else "content", path if folder else path.parent))
        if folder and self.fails_with:
            raise OSError(self.fails_with, os.strerror(self.fails_with))
        self._fsync(fd)

    def replace(self, source, target):
        self.calls.append(("rename", Path(target)))
        self._replace(source, target)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def of_file(path):
    return [("content", path.parent), ("rename", path), ("folder", path.parent)]


def test_a_revocation(world, disk, tmp_path):
    ca = world.ca
    revoked = ca.revoked.path
    ca.revoke(ca.issue("carol", "client") and "carol")
    assert disk.calls[-3:] == of_file(revoked)
    disk.calls.clear()
    longer = Listed(ca.revoked.listed.count + 1, frozenset([bytes(32)]))
    assert ca.revoked.take(packed(longer, ca._key))
    assert disk.calls == of_file(revoked)


def test_files_in_a_new_folder(disk, tmp_path):
    into = tmp_path / "a" / "b"
    files.write(into, {"one": b"1", "two": b"2"})
    assert disk.calls == [
        ("folder", tmp_path), ("folder", into.parent), *of_file(into / "one"),
        *of_file(into / "two"),
    ]  # fmt: skip


def test_a_file_that_need_not_survive_costs_no_sync(disk, tmp_path):
    saved_files.replace(tmp_path / "x", b"1")
    assert disk.calls == [("rename", tmp_path / "x")]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EIO])
def test_a_folder_that_cannot_be_synced(disk, tmp_path, code):
    """EINVAL: the file system does not offer it. EIO: the disk failed."""
    disk.fails_with = code
    if code == errno.EIO:
        with pytest.raises(OSError, match=str(tmp_path / "x")) as failed:
            saved_files.replace(tmp_path / "x", b"1", sync=True)
        assert failed.value.errno == code
    else:
        saved_files.replace(tmp_path / "x", b"1", sync=True)
    assert (tmp_path / "x").read_bytes() == b"1"
