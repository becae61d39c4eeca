"""The conformance suite on each emulated chip and on kernels from Linux 5.15 on.

When this fails, an AMD chip or kernel version breaks a promise that every program relies on.

A test each of cards that pair chips, KMS versions, BARs and harvested units; long ones take every
pair of chip and version.
"""

import pytest

import sparkle_drv as sp
from sparkle_drv.testing import suite
from sparkle_drv.testing.checks.base import busy_speed

# Each chip once, each kernel twice, each with and without a small BAR or harvested units.
CARDS = (
    "gfx1030:kms-3.42:bar-256M",
    "gfx1033:kms-3.54:bar-256M",
    "gfx1035:kms-3.61:cu-6",
    "gfx1036:kms-3.48",
    "gfx1100:kms-3.42:se-4:cu-38",
    "gfx1102:kms-3.48:bar-256M:se-1",
    "gfx1103:kms-3.61:bar-256M",
    "gfx1150:kms-3.54:cu-2",
)
COVERS = ("memory", "launch", "lists", "arguments")  # under a second a card
KERNELS = ("vecadd", "reduce")


@pytest.fixture(scope="module")
def steps_a_s():
    """How fast busy work runs: cards emulated on one machine are alike, and it takes a while."""
    with sp.open(f"emu:{CARDS[0]}") as device:
        return busy_speed(device)


def failed(results):
    return {r.name: r.message for r in results if r.status == suite.FAILED}


@pytest.mark.unmeasured
@pytest.mark.parametrize("card", CARDS)
def test_the_quick_checks(card, steps_a_s):
    with sp.open(f"emu:{card}") as device:
        busy_speed(device, steps_a_s)
        quick = [c for c in suite.checks() if c.covers in COVERS or _is_wanted(c.name)]
        for check in quick:
            try:
                suite.judge(check, device)
            except suite.NotProvided:
                continue
        assert len(quick) > 40
        assert device.info.driver.startswith("amdgpu 3." + card.partition("kms-3.")[2][:2])


def _is_wanted(name):
    return name.startswith("kernels: ") and name.removeprefix("kernels: ").startswith(KERNELS)


@pytest.mark.long
@pytest.mark.parametrize("kms", [42, 48, 54, 61])
@pytest.mark.parametrize("chip", [card.partition(":")[0] for card in CARDS])
def test_the_whole_suite(chip, kms):
    assert failed(suite.run(f"emu:{chip}:kms-3.{kms}")) == {}
