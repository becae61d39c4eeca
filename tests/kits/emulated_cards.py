"""An emulated card of its own for a test: the device on it, or a context for raw packets."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

LEVEL = {"gfx1036": 10, "gfx1100": 11}


@contextmanager
def own_card(chip="gfx1100", **options):
    """(machine, device) of one card; nothing is left alive on it."""
    with Machine([chip], **options) as machine:
        with Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev:
            yield machine, dev
        assert not any(machine.live_counts().values()), machine.live_counts()


@pytest.fixture
def open_rig():
    """(chip, **options of Machine) -> a namespace: gpu, machine, gfx, and `run`."""
    opened = []

    def make(chip, **options):
        machine = Machine([chip], **options)
        node = machine.open(0)
        gpu = EmulatedGpu(node)
        opened.extend((machine, node, gpu))

        def run(dwords, *bos, ip="compute", **more):
            """Submits and waits; None, or the Fault that stopped it."""
            before = machine.fault_count(0)
            try:
                gpu.wait(gpu.submit(ip, dwords, bos=bos, **more))
            except OSError:
                if machine.fault_count(0) == before:
                    raise
                fresh = EmulatedGpu(node)  # the context is guilty: it takes no more jobs
                gpu.ctx, fresh.ctx = fresh.ctx, gpu.ctx
                fresh.close()
                return machine.fault(0)
            return None

        return SimpleNamespace(
            gpu=gpu,
            machine=machine,
            node=node,
            gfx=10 if chip.startswith("gfx10") else 11,
            run=run,
            buffer=gpu.buffer,
        )

    yield make
    for thing in reversed(opened):
        thing.close()


@pytest.fixture(params=LEVEL)
def rig(request, open_rig):
    return open_rig(request.param, trace=2)
