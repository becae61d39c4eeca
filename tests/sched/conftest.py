"""Fixtures of the scheduler's tests."""

import pytest

from sparkle_drv.sched.run import probe


@pytest.fixture(scope="module")
def short_probes():
    """For modules that look at results, not at speeds: probes end after two sizes, of few runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "BUDGET_S", 0.0)
        patch.setattr(probe, "FIRST_WARM_S", 0.0)
        patch.setattr(probe, "WARM_S", 0.0)
        yield
