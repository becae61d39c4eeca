"""Public test equipment, separate from the rest: the conformance suite for devices (suite.py),
emulated cards (emu.py), simulated devices (sim.py), and faults for them (faults.py).

It may import anything of the package; only tools and tests import it.

    suite.py, checks/                             the conformance suite, and its checks
    faults.py                                     plans of faults: what fails, and when
    fault_suite.py                                the suite on an emulated card with such a plan
    emu.py                                        the scheme emu: the amdgpu backend, emulated cards
    emulator.py, emulated_options.py              Machine: emulated cards; checks of its options
    emulated_gpu.py                               Gpu of amd/kmd for tests, which frees itself
    emulated_dispatch.py, emulated_kernels.py     a dispatch as an IB; HSA kernels on a card
    emulated_faults.py                            applies a plan of faults to an emulated card
    planted.py                                    cards with one defect, for the bring-up ladder
    sim.py                                        the scheme sim: the cpu's results in virtual time
    simulated.py, sim_time.py, sim_faults.py      rates of a simulated machine; time; faults
    sim_clock.py, sim_links.py                    its clock, which lanes share; links and ports
    juggler.py                                    regret: distance of the scheduler from the best
    rules.py, placements.py                       the worth of its rules and placement methods
    shards/                                       machines to cut work for; plays such plans
    calls.py                                      a submission's addresses, for programs in C
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
