"""egl in a forked child: besides what test_fork.py says of each device, EGL itself cannot be used
again. A driver's threads stay behind: without the guard the child would hang.

When this fails, a forked child hangs in the GL driver of its parent.
"""

import pytest
from test_fork import in_child, inherited

import sparkle_drv as sp


@pytest.fixture
def made(egl):
    yield from inherited(egl)


def test_egl_cannot_be_opened_in_the_child(made):
    def work():
        with pytest.raises(sp.DeviceNotFound, match="forked after EGL was initialised"):
            sp.open("egl:0")
        (found,) = (found for found in sp.discover() if found.backend == "egl")
        assert "forked" in found.reason
        assert "apt-get" not in found.advice
        with sp.open("cpu") as cpu:  # everything else can
            cpu.buffer(4).close()

    assert in_child(work) == 0
