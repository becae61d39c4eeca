"""A reset during a transfer: the fence brings the data or a typed error, and the device works on.

When this fails, a GPU reset turns a copy into garbage without an error.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulated_faults import apply
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.faults import RECOVERIES, Fault, Schedule

NBYTES = (4 << 20) + 4096  # two chunks of a copy between devices; goes to the ring for copies
DATA = np.random.default_rng(3).integers(0, 255, NBYTES, np.uint8)
LIMIT_S = 10


def hold(cards, which):
    """Jobs of these cards wait, and all go on before `outcome` waits. No queue may be in need of a
    new context then: its canary would wait, too."""
    for card in which - {None}:
        cards.machine.hold_jobs(card)


class Upload:
    """The queue is busy, so that the bytes go by way of memory in between."""

    def begin(self, cards, held=0):
        hold(cards, {None if held is None else 0, held})
        cards.here.default_queue.submit(sp.Commands().fill(cards.into, 0))
        return cards.here.default_queue.write(cards.into, DATA)

    def came(self, cards):
        return cards.into.read(np.uint8, NBYTES)


class Download:
    def begin(self, cards, held=0):
        self.out = np.zeros(NBYTES, np.uint8)
        hold(cards, {held})
        return cards.here.default_queue.read(cards.full, self.out)

    def came(self, cards):
        return self.out


class Peer(Upload):
    def begin(self, cards, held=0):
        hold(cards, {held})
        return cards.here.default_queue.copy_peer(cards.into, cards.there_full)


class Cards:
    """Card 0, where transfers end or begin, and card 1, a peer."""

    def __init__(self, machine):
        self.machine = machine
        self.here, self.there = (
            Device(f"emu:{card}", emu.open_card(machine, card, f"emu:{card}")) for card in (0, 1)
        )
        self.into = self.here.buffer(NBYTES)
        self.full = self.here.buffer(NBYTES)
        self.there_full = self.there.buffer(NBYTES)
        self.full.write(DATA)
        self.there_full.write(DATA)
        self.here.default_queue.copy_peer(self.into, self.there_full).wait(LIMIT_S)  # the link

    def close(self):
        self.here.close()
        self.there.close()


@pytest.fixture
def cards():
    with Machine(["gfx1100", "gfx1100"], job_limit_s=0.3) as machine:
        made = Cards(machine)
        yield made
        made.close()


def outcome(transfer, fence, cards):
    """True: the bytes are there; else the error that the fence raised."""
    for card in (0, 1):
        cards.machine.hold_jobs(card, False)
    begun = time.monotonic()
    try:
        fence.wait(LIMIT_S)
    except (sp.KernelFault, sp.DeviceLost) as error:
        assert time.monotonic() - begun < LIMIT_S / 2
        return error
    assert (transfer.came(cards) == DATA).all()
    return True


@pytest.mark.parametrize(
    ("kind", "at", "recovery"),
    [
        *((Upload, 1, recovery) for recovery in RECOVERIES),
        *((Upload, 2, recovery) for recovery in ("full", "vram_lost")),
        *((Download, 1, recovery) for recovery in ("ring", "vram_lost")),
        *((Peer, 2, recovery) for recovery in ("soft", "vram_lost")),
    ],
)
def test_a_job_of_the_transfer_hangs(cards, kind, at, recovery):
    transfer = kind()
    apply(Schedule(0, [Fault("job", at, "hang", recovery=recovery)]), cards.machine)
    got = outcome(transfer, transfer.begin(cards), cards)
    assert isinstance(got, sp.SparkleError)
    if recovery == "vram_lost":
        with pytest.raises(sp.DeviceLost):
            cards.full.read(np.uint8, NBYTES)
    else:
        assert outcome(transfer, transfer.begin(cards, held=None), cards) is True


@pytest.mark.parametrize("recovery", ["soft", "vram_lost"])
def test_a_job_of_the_peer_hangs(cards, recovery):
    transfer = Peer()
    apply(Schedule(0, [Fault("job", 2, "hang", recovery=recovery)]), cards.machine, 1)
    got = outcome(transfer, transfer.begin(cards), cards)
    assert isinstance(got, sp.KernelFault)
    assert "from another device" in str(got)
    if recovery == "vram_lost":
        with pytest.raises(sp.DeviceLost):
            cards.there_full.read(np.uint8, NBYTES)
    else:
        assert outcome(transfer, transfer.begin(cards, held=None), cards) is True


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
@pytest.mark.parametrize(("kind", "card"), [(Upload, 0), (Download, 0), (Peer, 0), (Peer, 1)])
def test_a_reset_from_outside(cards, kind, card, lost):
    """What ran is submitted again, and ends well, unless VRAM was lost."""
    transfer = kind()
    fence = transfer.begin(cards, held=card)
    cards.machine.reset(card, vram_lost=lost)
    got = outcome(transfer, fence, cards)
    assert (got is True) == (not lost)
    if lost:
        device = (cards.here, cards.there)[card]
        with pytest.raises(sp.DeviceLost):
            device.queue()
