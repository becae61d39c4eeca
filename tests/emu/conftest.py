"""Emulated machines for tests of the emulator itself; a leak on one fails the test."""

from __future__ import annotations

import pytest
from emulated_cards import open_rig, rig  # noqa: F401
from ioctls import leaks

from sparkle_drv.testing.emulator import EmulatedGpu, Machine

CHIPS = ["gfx1036", "gfx1100"]


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
    with EmulatedGpu(node) as made:
        yield made


@pytest.fixture
def gfx10(machine):
    """A context on the gfx1036."""
    with machine.open(1) as opened, EmulatedGpu(opened) as made:
        yield made


@pytest.fixture(params=CHIPS)
def card(request):
    """(chip, context) on a machine of one card, each chip in turn: anew for each test."""
    with (
        Machine([request.param], job_limit_s=5) as made,
        made.open() as opened,
        EmulatedGpu(opened) as context,
    ):
        yield request.param, context


@pytest.fixture(scope="module", params=CHIPS)
def warm_node(request):
    with Machine([request.param], job_limit_s=5) as made, made.open() as opened:
        yield request.param, opened


@pytest.fixture
def warm(warm_node):
    """(chip, context) on a machine that a module keeps: each chip in turn."""
    chip, opened = warm_node
    with EmulatedGpu(opened) as context:
        yield chip, context
