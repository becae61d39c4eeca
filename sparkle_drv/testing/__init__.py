"""Test equipment, public and apart: the conformance suite that judges every device (suite.py),
emulated cards (emu.py) and simulated devices (sim.py), and what goes wrong with them (faults.py).

May import anything of the package; nothing but tools and tests imports it.
"""

from __future__ import annotations

from typing import Any

from sparkle_drv.core.registry import register


def _emu() -> Any:
    from sparkle_drv.testing.emu import EmuBackend

    return EmuBackend


def _sim() -> Any:
    from sparkle_drv.testing.sim import SimBackend

    return SimBackend


register("emu", _emu)
register("sim", _sim)
