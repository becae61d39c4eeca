"""Test equipment, public and apart: the conformance suite that judges every device (suite.py),
emulated cards (emu.py) and simulated devices (sim.py), and what goes wrong with them (faults.py).

May import anything of the package; nothing but tools and tests imports it.

    suite.py, checks/                             the conformance suite, and its checks
    faults.py                                     plans of faults: what goes wrong, and when
    fault_suite.py                                the suite on an emulated card with such a plan
    emu.py                                        the URI emu: the amdgpu backend on emulated cards
    emulator.py, emulated_options.py              Machine: emulated cards; its options, checked
    emulated_gpu.py                               Gpu of amd/kmd, freed by itself, for tests
    emulated_dispatch.py, emulated_kernels.py     a dispatch as an IB; HSA kernels on a card
    emulated_faults.py                            makes a card's n-th ioctl fail, by such a plan
    planted.py                                    cards with one defect, for the bring-up ladder
    sim.py                                        the URI sim: the cpu's results in virtual time
    simulated.py, sim_time.py, sim_faults.py      rates of such a machine; time; faults
    sim_clock.py, sim_links.py                    its clock, which lanes share; links and ports
    juggler.py                                    regret: how far the scheduler is from the best
    rules.py, placements.py                       what its rules and methods of placing are worth
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
