"""What most planted faults need: an emulated card, a dword to load, a dword for the result."""

from __future__ import annotations

import pytest
from cachekit import OLD, UC


@pytest.fixture
def rig(open_rig, chip):
    return open_rig(chip)


@pytest.fixture
def x(rig):
    """A dword that is OLD in memory."""
    made = rig.buffer(4096)
    made.write([OLD])
    return made


@pytest.fixture
def out(rig):
    """Uncached: the CPU sees a result at once."""
    return rig.buffer(4096, rights=UC)
