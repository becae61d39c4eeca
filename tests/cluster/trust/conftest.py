"""A CA with one node and one client, each in a home of its own; a stranger's CA; a clock."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparkle_drv.cluster.trust import authority, certificates, files, identity


class Clock:
    """The machine's clock, set apart by a test."""

    def __init__(self, monkeypatch) -> None:
        self._real, self.ahead = certificates.now, timedelta(0)
        monkeypatch.setattr(certificates, "now", lambda: self._real() + self.ahead)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing here needs to outlive a power cut, and a busy disk takes 50 ms for each file."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


class World:
    """Homes of machines and the CA that certifies them."""

    def __init__(self, room: Path) -> None:
        self.room, self.home = room, str(room / "ca")
        self.ca = authority.init(self.home)

    def make(self, name, role, hosts=(), ca=None, days=1):
        """A machine with these files; its home."""
        home = self.room / f"{role}-{name}"
        files.write(home / "cluster", (ca or self.ca).issue(name, role, hosts, days))
        return str(home)

    def new(self, name, role, hosts=(), ca=None, days=1):
        """A machine's identity."""
        return identity.read(self.make(name, role, hosts, ca, days))


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def stranger(tmp_path):
    """Another CA's world."""
    return World(tmp_path / "stranger")


@pytest.fixture
def ends(world):
    """A node and a client of one CA."""
    return SimpleNamespace(
        node=world.new("box1", "node", ("127.0.0.1",)), client=world.new("alice", "client")
    )
