"""Rigs for tests of packets: an emulated card of each chip, a context, a way to run jobs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sparkle_drv.testing.emulator import Gpu, Machine

LEVEL = {"gfx1036": 10, "gfx1100": 11}


@pytest.fixture
def open_rig():
    """(chip, **options of Machine) -> a namespace: gpu, machine, gfx, and `run`."""
    opened = []

    def make(chip, **options):
        machine = Machine([chip], **options)
        node = machine.open(0)
        gpu = Gpu(node)
        opened.extend((machine, node, gpu))

        def run(dwords, *bos, ip="compute", **more):
            """Submits and waits; None, or the Fault that stopped it."""
            before = machine.fault_count(0)
            try:
                gpu.wait(gpu.submit(ip, dwords, bos=bos, **more))
            except OSError:
                if machine.fault_count(0) == before:
                    raise
                fresh = Gpu(node)  # the context is guilty: it takes no more jobs
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
