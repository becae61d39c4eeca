"""Ladders for tests: climbed in this process, on emulated cards that can be broken."""

from __future__ import annotations

from contextlib import contextmanager

from _bringup.benches.amdgpu import Bench
from _bringup.benches.card import Emulated
from _bringup.ladder import families, runner

from sparkle_drv.testing.emulator import Machine

CHIPS = ["gfx1036", "gfx1100"]


@contextmanager
def bench(chip="gfx1100", *, job_s=1.0, card=Emulated, **options):
    """(machine, bench) of one card; nothing may be left on it."""
    with Machine([chip], **{"job_limit_s": 0.3, "kms_minor": 58, **options}) as machine:
        made = Bench(card(chip, machine=machine), job_s=job_s)
        try:
            yield machine, made
        finally:
            made.close()


def rungs(*names, hangs=False):
    """The amdgpu ladder, or the rungs of it that are named."""
    every = [rung for rung in families.AMDGPU if hangs or not rung.hangs]
    return [rung for rung in every if rung.name in names] if names else every


def climbed(made, *names, hangs=False, timeout_s=20.0, begun=None):
    """Results by name."""
    wanted = rungs(*names, hangs=hangs)
    return {r.name: r for r in runner.run_rungs(wanted, made, timeout_s=timeout_s, begun=begun)}


def planted(name, plant, machine):
    """For `begun`: does `plant(machine)` when the rung of this name begins."""
    return lambda rung: plant(machine) if rung.name == name else None
