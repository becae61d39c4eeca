"""Public test equipment, separate from the rest: the conformance suite for devices (suite.py),
emulated cards (emu.py), simulated devices (sim.py), and faults for them (faults.py).

It may import anything of the package. Only tools and tests import it.

    suite.py, checks/                          the conformance suite, and its checks
    faults.py                                  plans of faults: what fails, and when
    fault_suite.py                             the suite on an emulated card with planned faults
    emu.py                                     the scheme emu: amdgpu on emulated cards
    emulator.py, emulated_options.py           Machine: emulated cards; checks of its options
    emulated_gpu.py                            the Gpu of amd/kmd for tests; it frees its memory
    emulated_dispatch.py, emulated_kernels.py  a dispatch as an IB; HSA kernels on a card
    emulated_faults.py                         applies a plan of faults to an emulated card
    sim.py                                     the scheme sim: the cpu's results, virtual times
    simulated.py, sim_time.py, sim_faults.py   a simulated machine's rates, times and faults
    sim_clock.py, sim_links.py                 a simulated machine's clock, links and ports
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
