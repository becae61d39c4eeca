"""Fixtures for the tests of one kind of device."""

from __future__ import annotations

import pytest


@pytest.fixture
def egl(opened):
    """egl:0, idle at the end and holding nothing more than before."""
    dev = opened("egl:0")
    queue = dev.default_queue
    before = dev.live_counts()
    yield dev
    queue.fence(queue.submitted).wait()
    assert dev.live_counts() == before
