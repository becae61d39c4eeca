"""A card whose clock has no known frequency is measured by the host's clock alone.

When this fails, times on a card without a known clock are wrong.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from _bench.jobs import catalog
from _bench.measure import engine
from _bench.measure.bound import timed, timing_queue
from _bench.measure.engine import Settings

import sparkle_drv as sp
from sparkle_drv import assets
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine

BRIEF = Settings(seed=11, precision=0.5, timeout_s=0.02, least=3)


@pytest.fixture
def card():
    """As if it were no emulated one, whose clock is never asked."""
    with Machine(["gfx1100"]) as machine:
        machine.plant("frequency", 0)
        backend = emu.open_card(machine, 0, "emu:own")
        backend.info = replace(backend.info, emulated=False)
        with Device("emu:own", backend) as dev:
            yield machine, dev


@pytest.mark.parametrize("mode", ["hot", "latency", "pipeline"])
def test_a_kernel_is_timed_by_the_host(card, mode):
    _, dev = card
    manifest = assets.manifest()["kernels"]
    (point,) = catalog.expand("saxpy_f32", {"n": "33"}, dev.info)
    job = catalog.make("saxpy_f32", point, dev.info, manifest, BRIEF.seed)
    row = engine.run(job, dev, mode, BRIEF, None)
    assert row.verified, row.reason
    assert row.measured.primary == "host"
    assert min(row.measured.host_ns) > 0


def test_a_failure_is_no_lack_of_a_clock(card):
    machine, dev = card
    with timing_queue(dev) as queue:
        assert not queue.timing
    machine.unplug()
    with pytest.raises(sp.DeviceLost):
        timed(dev)
