"""Emulated machines for tests of the emulator itself; a leak on one fails the test."""

from __future__ import annotations

import pytest
from ioctls import leaks
from rigs import open_rig, rig  # noqa: F401

from sparkle_drv.testing.emulator import Gpu, Machine


@pytest.fixture
def machine():
    """Two cards, with a log: 0 is a gfx1100, 1 a gfx1036. Nothing may be left open on it."""
    with Machine(["gfx1100", "gfx1036"], trace=1, job_limit_s=5) as made:
        yield made
        assert leaks(made) == {}


@pytest.fixture
def node(machine):
    """An open render node of the gfx1100."""
    with machine.open(0) as opened:
        yield opened


@pytest.fixture
def gpu(node):
    """A context on that node."""
    with Gpu(node) as made:
        yield made
