"""What several tests of operations look at."""

import pytest

from sparkle_drv.ops.memory import staging


@pytest.fixture
def slowly(monkeypatch):
    """The devices of the calls that came to Python."""
    seen = []
    look = staging.device

    def note(given):
        seen.append(given)
        return look(given)

    monkeypatch.setattr(staging, "device", note)
    return seen
