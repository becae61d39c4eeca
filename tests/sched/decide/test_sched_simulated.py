"""The scheduler's choices on simulated machines whose truth is known (juggler.py of
benchmarks/_inside). Regret is measured after the probes, after a hundred runs, and after a device
has become slower.

When this fails, a Context keeps choosing a slower device.
"""

import threading
from statistics import mean

import pytest
from _inside.juggler import OP, PROBES, ProductCaller

from sparkle_drv.testing import simulated as sim

MACHINES = 60


@pytest.fixture(scope="module")
def callers():
    return [ProductCaller(seed) for seed in range(MACHINES)]


def test_every_machine_has_a_crossover():
    for seed in range(20):
        machine = sim.machine(seed)
        best = set()
        for size in PROBES:
            best.add(min(machine.devices.values(), key=lambda d: sim.true_s(d, OP, size)).uri)
        assert len(best) > 1


@pytest.mark.unmeasured
def test_regret_after_the_probes_and_after_a_hundred_calls(callers):
    assert mean(caller.regret(100) for caller in callers) <= 0.02
    assert mean(caller.faster_than_one(100) for caller in callers) >= 0.2
    assert mean(caller.regret(100) for caller in callers) <= 0.005


@pytest.mark.unmeasured
def test_a_device_that_becomes_three_times_slower_is_learnt_anew(callers):
    assert mean(caller.slow_down(3.0, calls=20) for caller in callers) <= 0.02


def test_the_simulation_is_one_of_its_seed():
    assert sim.machine(7).devices == sim.machine(7).devices
    assert sim.machine(7).devices != sim.machine(8).devices


def test_calls_are_those_of_their_seed():
    told = []
    for _ in range(2):
        caller = ProductCaller(5)
        told.append((caller.regret(5), caller.faster_than_one(5), caller.slow_down(3.0, calls=3)))
    assert told[0] == told[1]


def test_time_passes_by_what_runs():
    machine = sim.machine(3)
    seconds = machine.run("sim:cpu", OP, 1e6) + machine.transfer("sim:gpu0", 1 << 20)
    assert machine.clock.now_s == pytest.approx(seconds)


def test_the_clock_of_several_devices_never_goes_back():
    clock = sim.Clock()

    class Late(float):
        def __gt__(self, other):
            later = threading.Thread(target=clock.advance, args=(8.0,))
            threads.append(later)
            later.start()
            later.join(0.2)  # here another thread has the turn
            return float(self) > other

    threads = []
    clock.advance(1.0, Late(2.0))
    threads[0].join()
    assert clock.now_s == 11.0
