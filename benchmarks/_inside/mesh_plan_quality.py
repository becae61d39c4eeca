"""How good the mesh planner's choice is on a network: figures for benchmarks/mesh.py and tests.

Predicted seconds come from the planner. Simulated seconds are those of `sim:` devices with the
network's links and ports, on their virtual clock. sim_links.py computes simulated seconds from fair
shares, independently of the planner.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from sparkle_drv.core.registry import open_device
from sparkle_drv.mesh.collective.choose import CollectivePlan, all_reduces, plan_all_reduce
from sparkle_drv.mesh.collective.fluid import predicted_s
from sparkle_drv.mesh.lanes.array_runner import Ways, run_on_arrays
from sparkle_drv.mesh.lanes.program import Program
from sparkle_drv.mesh.lanes.runner import clocked
from sparkle_drv.mesh.links.network import Network
from sparkle_drv.testing import sim
from sparkle_drv.testing.sim_links import simulated

DEADLINE_S = 600.0
"""Real seconds that a step of a simulated program may take."""


def all_reduce(network: Network, nbytes: int) -> CollectivePlan:
    """Returns the planner's plan of an all_reduce of float32 elements."""
    return plan_all_reduce(network, nbytes, 4)


def all_reduce_s(network: Network, nbytes: int) -> float:
    """Returns the predicted seconds of the planner's all_reduce of `nbytes` bytes of float32."""
    return all_reduce(network, nbytes).predicted_s


def all_reduce_over_best(network: Network, nbytes: int) -> float:
    """Returns the predicted seconds of the planner's all_reduce of float32 elements, divided by
    the predicted seconds of the best single algorithm.
    """
    alone = (predicted_s(program, network) for _, program in all_reduces(network, nbytes, 4))
    return all_reduce_s(network, nbytes) / min(alone)


def all_reduce_simulated_s(network: Network, nbytes: int) -> tuple[float, float]:
    """Runs the planner's all_reduce of float32 elements on simulated devices. Returns (simulated,
    predicted) seconds. Raises AssertionError for a wrong sum.
    """
    machine, named = simulated(network)
    plan = plan_all_reduce(named, nbytes, 4)
    # A longer deadline: deadlines are in real seconds, and a program of 30,000 simulated steps runs
    # for minutes.
    steps = tuple(replace(step, deadline_s=DEADLINE_S) for step in plan.program.steps)
    with ExitStack() as stack:
        stack.enter_context(sim.on(machine))
        devices = [stack.enter_context(open_device(uri)) for uri in named.places]
        ways = stack.enter_context(Ways({device.uri: device for device in devices}))
        host = np.arange(nbytes // 4, dtype=np.float32) % 251
        arrays = {device.uri: stack.enter_context(device.array(host)) for device in devices}
        begin = machine.clock.now_s
        run_on_arrays(Program(steps), arrays, ways, **clocked(devices, lambda: 0.0))
        took_s = machine.clock.now_s - begin
        for array in arrays.values():
            assert np.array_equal(array.numpy(), host * len(devices)), array.device.uri
    return took_s, plan.predicted_s


def known_bound_s(rates: list[float], nbytes: int) -> float:
    """Returns n max(1 / b_min, 2 (p - 1) / sum b): the least seconds of an all_reduce of n bytes
    over p ports with these rates b in bytes per second, without latency.
    """
    return nbytes * max(1 / min(rates), 2 * (len(rates) - 1) / sum(rates))
