"""Emulated cards that report another IP version, family or clock are refused or opened.

When this fails, the owner of another AMD chip gets wrong packets instead of a clear refusal.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.device import Device
from sparkle_drv.core.timestamp import Timestamp
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine


@contextmanager
def opened(*flaws, chip="gfx1036", **options):
    with Machine([chip], **options) as machine:
        for flaw in flaws:
            machine.plant(*flaw)
        with Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev:
            yield machine, dev


@pytest.mark.parametrize(
    ("version", "isa"), [((10, 3, 1), "gfx1033"), ((10, 3, 2), "gfx1031"), ((10, 3, 7), "gfx1036")]
)
def test_the_isa_is_the_compilers_name(version, isa):
    major, minor, revision = version
    with opened(("chip", major << 16 | minor << 8 | revision)) as (_, dev), dev.kernel("noop") as k:
        assert dev.info.isa == isa
        dev.default_queue.launch(k, groups=1).wait()


def test_a_kernel_without_ip_versions_knows_its_chip_by_family():
    with opened(kms_minor=42) as (_, dev):
        assert dev.info.isa == "gfx1036"
    with opened(("family", 143, 0x3C), kms_minor=42) as (_, dev):
        assert dev.info.isa == "gfx1032"


@pytest.mark.parametrize(
    ("flaw", "options", "words"),
    [
        (("chip", 11 << 16 | 5 << 8 | 9), {}, "GC IP 11.5.9"),
        (("family", 143, 0x14), {"kms_minor": 42}, "family 143, revision 0x14, no IP version"),
    ],
)
def test_an_unknown_chip_is_refused_in_words(flaw, options, words):
    refusal = f"expected a chip of gfx10.3 or gfx11, got {words}"
    with pytest.raises(sp.DeviceNotFound, match=refusal), opened(flaw, **options):
        pass


def test_a_clock_of_unknown_frequency_turns_timing_off_alone():
    why = "gpu_counter_freq of INFO DEV_INFO is 0"
    with opened(("frequency", 0)) as (machine, dev):
        n = 1 << 17
        with dev.kernel("saxpy_f32") as k, dev.array(np.zeros(n, np.float32)) as y:
            x = dev.array(np.ones(n, np.float32))
            for _ in range(3):  # long enough to be measured, where there is a clock
                dev.default_queue.launch(k, y, x, 2.0, n, groups=512).wait()
            assert (np.asarray(y) == 6).all()
        with pytest.raises(sp.SparkleError, match=why):
            dev.queue(timing=True)
        with pytest.raises(sp.SparkleError, match=why):
            dev.timestamp()
        with dev.buffer(8, sp.Memory.HOST) as place:  # no way around it
            stamped = sp.Commands().timestamp(Timestamp(place))
            with pytest.raises(sp.SparkleError, match="not supported"):
                dev.default_queue.submit(stamped)
        x.close()
        assert machine.fault() is None
