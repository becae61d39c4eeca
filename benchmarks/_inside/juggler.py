"""Calls one operation with many sizes on a simulated machine, where the scheduler chooses the
device. Measures regret: how much longer a call takes than on the best device. Used by tests and
benchmarks/juggling.py.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import mean

from sparkle_drv.mesh.links.line import fit
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.decide.choose import choose
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.work import Operand, Work
from sparkle_drv.testing import simulated as sim

OP = "gemm_f32"
PROBES = tuple(sim.LEAST * (sim.MOST / sim.LEAST) ** (i / 6) for i in range(7))
"""Sizes of the start-up probes, evenly over a log scale."""


def probe(machine: sim.SimMachine) -> Costs:
    """Returns a cost model that has learnt from start-up probes of a machine. A probe runs the
    operation four times at each size. The first of the four runs is dropped.
    """
    costs = Costs()
    for uri, device in machine.devices.items():
        unified = device.to_s == (0.0, 0.0)
        costs.nodes[uri] = DeviceCosts(0, unified=unified)
        runs = [(size, [machine.run(uri, OP, size) for _ in range(4)]) for size in PROBES]
        costs.probed(OP, uri, [(size, t) for size, times in runs for t in times[1:]])
        if not unified:
            sizes = (1 << 12, 1 << 20, 1 << 26) * 3
            moves = [(float(n), machine.transfer(uri, n)) for n in sizes]
            costs.links[HOST, uri] = costs.links[uri, HOST] = fit(moves)
    return costs


@dataclass(frozen=True)
class Called:
    """One call: its device, and the true seconds of the call on each device."""

    device: str
    true_s: dict[str, float]

    @property
    def regret(self) -> float:
        """The true time of the call on the chosen device, divided by the true time on the best
        device, minus one.
        """
        return self.true_s[self.device] / min(self.true_s.values()) - 1


class ProductCaller:
    """Calls matrix products of random sizes, uniform on a log scale. Operands and results are on
    the host.
    """

    def __init__(self, seed: int) -> None:
        self.machine = sim.machine(seed)
        self.costs = probe(self.machine)
        self.devices = tuple(self.machine.devices)
        self._chance = random.Random(seed)

    def call(self, learn: bool) -> Called:
        """Calls one product. With `learn`, the product runs, and the costs learn its time."""
        size = sim.LEAST * (sim.MOST / sim.LEAST) ** self._chance.random()
        into, out = sim.nbytes_of(size)
        plan = choose(self.costs, Work(OP, size, (Operand(into),), out, HOST), self.devices)
        true = {u: sim.true_s(d, OP, size) for u, d in self.machine.devices.items()}
        if learn:
            if plan.explores:
                self.costs.explored(plan.extra_s)
            self.costs.ran(OP, plan.device, size, self.machine.run(plan.device, OP, size))
        return Called(plan.device, true)

    def regret(self, calls: int, learn: bool = False) -> float:
        """Returns the mean regret of `calls` calls."""
        return mean(self.call(learn).regret for _ in range(calls))

    def faster_than_one(self, calls: int) -> float:
        """Returns the fraction of the best single device's time that the scheduler saves.

        The scheduler learns meanwhile. Each call's time is divided by that call's least possible
        time; otherwise the largest calls would dominate.
        """
        ours = 0.0
        singles = dict.fromkeys(self.devices, 0.0)
        for _ in range(calls):
            called = self.call(learn=True)
            ours += called.regret + 1
            best = min(called.true_s.values())
            for uri, seconds in called.true_s.items():
                singles[uri] += seconds / best
        return 1 - ours / min(singles.values())

    def slow_down(self, factor: float, calls: int) -> float:
        """Slows the busiest device down by `factor`. Returns the mean regret after `calls` further
        calls.
        """
        used = [self.call(learn=True).device for _ in range(50)]
        busiest = self.machine.devices[max(sorted(set(used)), key=used.count)]
        busiest.slower = factor
        self.regret(calls, learn=True)
        after = self.regret(50)
        busiest.slower = 1.0
        return after
